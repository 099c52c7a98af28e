"""WebDataset shards: tars in which files with the same stem form one recording.

Invariant: a recording is the member of its sample with an audio suffix, read in place; the sample's
other members (`.json`, `.cls`, `.txt`) are its fields. A sample's name ends at the first dot of its
file name, as in the library webdataset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from asdf.corpora import KnownCorpus, Reading, is_recording
from asdf.errors import AsdfError
from asdf.extras.stores.archives import find_folder
from asdf.extras.stores.index import Archive
from asdf.extras.stores.sets.shards import ShardRows, find_shards, parse_object, plain_fields
from asdf.runs.log import track
from asdf.trials.label_words import Columns
from asdf.trials.lists import Tree

# Maximum size of a member that describes a recording; longer ones are ignored.
_MOST_BYTES = 2**20
# Suffixes of text members: `a.cls`, `a.speaker.txt`.
_TEXTS = ("cls", "txt", "label", "text")
# Transcripts would need more memory than everything else, and are not used in results.
_TRANSCRIPTS = ("txt", "text", "transcript", "transcription")
AUDIO = "audio"
"""Key of the recording's member if samples have several: `?audio=left.flac`."""


def read_webdataset(
    pattern: str, split: str, folder: Path, columns: Columns
) -> tuple[Reading, Tree]:
    """Read shards.

    Args:
        pattern: Path of the shards, or of a folder of them, relative to `folder`; see
            `asdf.extras.stores.sets.shards`.
        columns: Names of fields; 'audio' is the suffix of the recordings.

    Raises:
        AsdfError: shards do not exist or are damaged, samples lack a recording or a label, or a
            label has no meaning.
    """
    without = "no shards (*.tar) found. Check the path."
    root, shards = find_shards(pattern, folder, lambda name: name.endswith(".tar"), without)
    rows = ShardRows(pattern)
    what = "reading what shards say of their recordings"
    for shard in track(shards, len(shards), what, unit="shards"):
        location = find_folder(root / shard)
        if location is None:
            raise AsdfError(
                f"{root / shard} is not a tar. Name shards, or the folder that holds them."
            )
        archive = location.archive
        names = list(archive.names())
        for key, members in _samples(archive, names):
            with rows.noting(f"{shard}/{key}"):
                recording = _recording_of(members, columns.names.get(AUDIO, ""))
                fields: dict[str, str] = {}
                for end, position in members.items():
                    with rows.noting(f"{shard}/{key}.{end}"):
                        fields.update(_fields_of(archive, end, position, columns))
                rows.add(f"{shard}/{names[members[recording]]}", fields)
    return Reading(rows.trials(columns), audio=tuple(shards)), Tree(root)


def _samples(archive: Archive, names: list[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the samples of a shard in the order in which they were written.

    A sample is its name, and the positions of its members by their suffixes.
    """
    samples: dict[str, dict[str, int]] = defaultdict(dict)
    for position, name in enumerate(names):
        folder, slash, file_name = name.rpartition("/")
        stem, dot, end = file_name.partition(".")
        # The library's own members begin with underscores; hidden files do not belong to a sample.
        if not dot or not stem or stem.startswith("__"):
            continue
        samples[f"{folder}{slash}{stem}"][end.lower()] = position
    # The index of a tar is sorted by name.
    first = {key: min(map(archive.offset, members.values())) for key, members in samples.items()}
    yield from sorted(samples.items(), key=lambda entry: first[entry[0]])


def _recording_of(members: Mapping[str, int], stated: str) -> str:
    """Return the suffix of a sample's recording.

    Raises:
        AsdfError: there is none, or there are several.
    """
    ends = [end for end in members if is_recording(f".{end}")]
    if stated:
        wanted = stated.lower().lstrip(".")
        if wanted not in ends:
            raise AsdfError(f"there is no .{wanted}")
        return wanted
    if not ends:
        raise AsdfError(f"no recording, only {', '.join('.' + end for end in members)}")
    if len(ends) > 1:
        raise AsdfError(
            f"several recordings ({', '.join(ends)}): choose one after the name, ?{AUDIO}={ends[0]}"
        )
    return ends[0]


def _fields_of(archive: Archive, end: str, position: int, columns: Columns) -> dict[str, str]:
    """Return the fields in a member of a sample; {} if it is not a description.

    Raises:
        AsdfError: it is not JSON, not text, or too long.
    """
    kind = end.rpartition(".")[2]
    is_json = kind == "json"
    name = end.removesuffix(".txt")
    is_stated = any(theirs == name for ours, theirs in columns.names.items() if ours != AUDIO)
    if not is_json and not is_stated and (kind not in _TEXTS or name in _TRANSCRIPTS):
        return {}
    member = archive.member(position)
    if member.size > _MOST_BYTES:
        raise AsdfError(f"{member.size:,} bytes are more than a description may have (1 MB)")
    with member.open() as file:
        content = file.read()
    if is_json:
        return plain_fields(parse_object(content))
    try:
        return plain_fields({name: content.decode("utf-8")})
    except ValueError as error:
        raise AsdfError(f"it cannot be read ({error})") from None


WEBDATASET = KnownCorpus(
    name="webdataset",
    title="WebDataset shards",
    homepage="https://github.com/webdataset/webdataset",
    licence="that of the data set",
    needs="webdataset:PATH as a name, such as webdataset:data/shards-{000000..000999}.tar; samples "
    "with a recording and a .json, .cls or .txt that has the label",
    read=lambda tree, pattern: read_webdataset(pattern, "", tree.root, Columns())[0],
    subset_of="path",
)
