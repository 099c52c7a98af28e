"""Manifests of lhotse: cuts of recordings as JSON lines, and Shar, tars with such lines.

Invariant: a cut is a trial, read in place: the recording, or the part of it between the cut's start
and its end, in the cut's channel. Other kinds of cuts (a mix, changed audio, only features) are
refused by name, with the reason; lhotse itself is not needed.

The layouts are those of lhotse's documentation and files
(https://lhotse.readthedocs.io/en/latest/cuts.html, lhotse.shar).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from asdf.audio.reading import audio_length
from asdf.corpora import KnownCorpus, Reading, is_recording
from asdf.errors import AsdfError
from asdf.extras.stores.archives import find_folder
from asdf.extras.stores.sets.shards import ShardRows, find_shards, parse_object, plain_fields
from asdf.facts import SAMPLE_RATE
from asdf.places import Part, open_file, part_path
from asdf.runs.log import track
from asdf.text import is_address, lines_and_more
from asdf.trials.label_words import Columns
from asdf.trials.lists import Tree
from asdf.trials.text_lines import lines_of

ROOT = "root"
"""Key of the folder that paths in manifests are relative to: `?root=/data`."""

_CUTS = re.compile(r"cuts\.([^.]+)\.jsonl\.gz")
_MANIFESTS = (".jsonl", ".jsonl.gz")
# Fields of a supervision that describe a trial, without transcripts.
_OF_SUPERVISIONS = ("speaker", "language", "gender")
# Manifests are in folders such as data/manifests, with paths relative to the project's folder.
_PARENTS = 4
# Enough for the times of all words in an hour of speech.
_LONGEST_LINE = 2**22
# No recording is longer than thirty years.
_MAX_S = 10**9
_OPENED = 100
# More than the padding of a codec.
_LENGTH_S = 0.1
_SHOWN = 5
_SAVE = "save it first (CutSet.save_audios, CutSet.to_shar)"
_CUT = "lhotse cut simple -r recordings.jsonl.gz -s supervisions.jsonl.gz cuts.jsonl.gz"


@dataclass(frozen=True)
class _Cut:
    """A cut in a manifest.

    Attributes:
        source: Path of its recording; '' if it is in a tar of Shar.
        part: Part of the recording.
        seconds: Length of the recording that the manifest states.
        fields: Fields that describe the trial.
    """

    name: str
    source: str
    part: Part
    seconds: float
    fields: Mapping[str, str]


def read_lhotse(pattern: str, split: str, folder: Path, columns: Columns) -> tuple[Reading, Tree]:
    """Read manifests of cuts.

    Args:
        pattern: Path of a manifest, or of several, relative to `folder`.
        columns: Names of fields; 'root' is the folder that paths are relative to.

    Raises:
        AsdfError: a manifest does not exist or is damaged, a cut is not a part of a recording or
            has no label, or a label has no meaning.
    """
    base, manifests = find_shards(
        pattern,
        folder,
        lambda name: name.endswith(_MANIFESTS) and "cuts" in name,
        f"no manifest of cuts (*cuts*.jsonl.gz) found. To make one: {_CUT}",
    )
    rows = ShardRows(pattern)
    root: Path | None = None
    above = base.absolute().parents[:_PARENTS]
    candidates = [base, *above, folder, Path()]
    if stated := columns.names.get(ROOT):
        candidates = [Path(stated).expanduser()]
    lengths_s: dict[str, float] = {}
    for manifest in manifests:
        if not manifest.endswith(_MANIFESTS):
            raise AsdfError(
                f"{base / manifest} is not a manifest of JSON lines: lhotse copy OLD "
                "NEW.jsonl.gz makes one."
            )
        for number, cut in _cuts(base / manifest, rows, manifest):
            if root is None and not cut.source.startswith("/"):
                root = _root_of(cut.source, candidates)
            lengths_s[cut.source] = cut.seconds
            rows.add(part_path(cut.source, cut.part), cut.fields, number)
    tree = Tree(root or base)
    trials = rows.trials(columns)
    _compare_lengths(pattern, tree.root, lengths_s)
    inner = (name for name in trials.ids if not name.startswith("/"))
    folders = {name.rpartition("/")[0] for name in inner}
    return Reading(trials, audio=tuple(sorted(folders))), tree


def _root_of(source: str, candidates: list[Path]) -> Path:
    """Return the first folder that contains the first recording."""
    for root in candidates:
        path = root / source
        if path.exists() or find_folder(path) is not None:
            return root
    tried = ", ".join(map(str, dict.fromkeys(candidates)))
    raise AsdfError(
        f"the recording {source!r} is in none of {tried}. After the manifest's name, give the "
        f"folder that its paths are relative to: ?{ROOT}=FOLDER"
    )


def _compare_lengths(pattern: str, root: Path, stated: Mapping[str, float]) -> None:
    """Refuse recordings of other lengths than the manifest states; of many, some are opened."""
    wrong = []
    for source in list(stated)[:: 1 + len(stated) // _OPENED]:
        # Missing and damaged ones are named together later.
        with suppress(AsdfError):
            seconds = audio_length(root / source) / SAMPLE_RATE
            if abs(seconds - stated[source]) > _LENGTH_S:
                wrong.append(f"{source}: {seconds:.3f} s, not {stated[source]:.3f} s")
    if wrong:
        raise AsdfError(
            f"{pattern}: recordings in {root} have other lengths than the manifest states:"
            f"{lines_and_more(wrong, _SHOWN)}\nMake it again, or give their folder after its name: "
            f"?{ROOT}=FOLDER"
        )


def _entries(path: Path, rows: ShardRows, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines; other lines are recorded as problems."""
    try:
        file = open_file(path)
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}. Check the path.") from None
    with file:
        for number, line in lines_of(file, path, longest=_LONGEST_LINE, most=math.inf):
            with rows.noting(f"{name}, line {number}"):
                yield number, parse_object(line)


def _cuts(path: Path, rows: ShardRows, name: str) -> Iterator[tuple[int, _Cut]]:
    """Yield the cuts of a file with their lines; invalid or repeated ones are problems."""
    known: set[str] = set()
    for number, entry in _entries(path, rows, name):
        with rows.noting(f"{name}, line {number}"):
            cut = _cut_of(entry)
            if cut.name in known:
                raise AsdfError(f"cut {cut.name!r} is repeated")
            known.add(cut.name)
            yield number, cut


def _cut_of(entry: Mapping[str, Any]) -> _Cut:
    """Return the cut of a line.

    Raises:
        AsdfError: it is not a part of a recording; the message names the cut and the reason.
    """
    name = str(entry.get("id", ""))
    kind = entry.get("type")
    recording = entry.get("recording")
    try:
        problem = ""
        if kind not in ("MonoCut", "MultiCut", "Cut"):
            problem = f"{kind!r} is not a cut of a recording"
            if kind == "MixedCut":
                problem = f"it is a mix, which lhotse computes: {_SAVE}"
            elif "sources" in entry or "recording_id" in entry:
                kind = "recordings" if "sources" in entry else "supervisions"
                problem = f"a manifest of {kind} has no cuts: {_CUT}"
        elif not isinstance(recording, dict):
            problem = "it names no recording (features are not read)"
        elif recording.get("transforms"):
            changes = {str(each.get("name", each)) for each in recording["transforms"]}
            problem = f"its audio is changed by lhotse ({', '.join(sorted(changes))}): {_SAVE}"
        if problem or not isinstance(recording, dict):
            raise AsdfError(f"cut {name!r}: {problem}")
        part = _part_of(entry, recording)
        source, channel = _source_of(entry, recording)
        fields = _fields_of(entry)
        seconds = float(recording["duration"])
    # Decimal's own errors are of the kind ArithmeticError.
    except (ArithmeticError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise AsdfError(f"cut {name!r}: its fields are not those of a cut ({error!r})") from None
    return _Cut(name, source, part._replace(channel=channel), seconds, fields)


def _part_of(entry: Mapping[str, Any], recording: Mapping[str, Any]) -> Part:
    # As decimals, since a binary fraction may round to another frame than lhotse's.
    start = Decimal(str(entry.get("start", 0)))
    duration = Decimal(str(entry["duration"]))
    whole = Decimal(str(recording["duration"]))
    frames = Decimal(1) / Decimal(str(recording["sampling_rate"]))
    # Comparisons with NaN raise their own errors.
    if not (0 <= start < _MAX_S and 0 < duration < _MAX_S):
        raise ValueError(f"start {start:.20g}, duration {duration:.20g}")
    # Durations are rounded to nanoseconds, and less than a frame is not a part.
    if start == 0 and abs(duration - whole) < frames:
        return Part()
    return Part(start, start + duration)


def _source_of(entry: Mapping[str, Any], recording: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return the path of the file of a cut, '' in Shar, and its channel; None for all."""
    channels = entry.get("channel", 0)
    wanted = sorted(channels) if isinstance(channels, list) else [int(channels)]
    for source in recording["sources"]:
        of_file = sorted(source["channels"])
        if not set(wanted) <= set(of_file):
            continue
        channel = None if wanted == of_file else of_file.index(wanted[0])
        if channel is not None and len(wanted) > 1:
            raise ValueError(f"channels {wanted} of {of_file}: only one or all can be read")
        kind, path = source["type"], str(source["source"])
        # The writer of Shar moves the bytes into a tar, and leaves an empty source.
        if kind == "shar" or (kind == "memory" and not path):
            return "", channel
        if kind != "file" or is_address(path):
            raise ValueError(f"its source is {kind} {path[:60]!r}, not a file: {_SAVE}")
        return path, channel
    raise ValueError(f"no file of its recording has the channels {wanted}")


def _fields_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a cut and its supervisions; several values are joined by '+'."""
    values: dict[str, dict[str, None]] = {}
    for supervision in entry.get("supervisions") or []:
        fields = plain_fields(supervision.get("custom"))
        for name in _OF_SUPERVISIONS:
            if supervision.get(name):
                fields[name] = " ".join(str(supervision[name]).split())
        for name, value in fields.items():
            values.setdefault(name, {})[value] = None  # each value once, in order
    joined = {name: "+".join(several) for name, several in values.items()}
    return {"cut": str(entry.get("id", "")), **joined, **plain_fields(entry.get("custom"))}


def read_shar(pattern: str, split: str, folder: Path, columns: Columns) -> tuple[Reading, Tree]:
    """Read a folder that lhotse's SharWriter wrote, or several.

    Raises:
        AsdfError: a shard is missing or damaged, a cut has no recording or no label, or a label has
            no meaning.
    """
    base, folders = find_shards(pattern, folder)
    rows = ShardRows(pattern)
    shards: list[tuple[str, str]] = []
    for name in folders:
        files = (base / name).iterdir()
        indices = [match.group(1) for path in files if (match := _CUTS.fullmatch(path.name))]
        if not indices:
            raise AsdfError(
                f"{base / name}: cuts.000000.jsonl.gz, as written by SharWriter, is "
                "missing. Name the folder of the shards, or lhotse:CUTS.jsonl.gz without tars."
            )
        shards += [(name, index) for index in sorted(indices)]
    tars = []
    for name, index in track(shards, len(shards), "reading the cuts of shards", unit="shards"):
        tar = f"{name}/recording.{index}.tar".lstrip("/")
        tars.append(tar)
        location = find_folder(base / tar)
        if location is None:
            raise AsdfError(
                f"{base / tar} does not exist: each cuts.N.jsonl.gz needs a recording.N.tar"
            )
        # The name of a cut may contain dots.
        names = filter(is_recording, location.archive.names())
        members = {member.rpartition(".")[0]: member for member in names}
        cuts = f"{name}/cuts.{index}.jsonl.gz".lstrip("/")
        # JSON lines next to the cuts are further fields. Sorted, since of equal ones the last
        # counts, and folders are listed in any order.
        others: dict[str, dict[str, str]] = {}
        for path in sorted((base / name).glob(f"*.{index}.jsonl.gz")):
            for _, entry in _entries(path, rows, path.name) if path.name[:5] != "cuts." else ():
                plain = plain_fields(entry)
                others.setdefault(plain.pop("cut_id", ""), {}).update(plain)
        for number, cut in _cuts(base / cuts, rows, cuts):
            if cut.name not in members:
                rows.problems.append(f"{cuts}, line {number}: {tar} has no {cut.name!r}")
                continue
            fields = {**cut.fields, **others.get(cut.name, {})}
            rows.add(f"{tar}/{part_path(members[cut.name], cut.part)}", fields, number)
    return Reading(rows.trials(columns), audio=tuple(tars)), Tree(base)


LHOTSE = KnownCorpus(
    name="lhotse",
    title="Manifests of cuts that lhotse wrote",
    homepage="https://github.com/lhotse-speech/lhotse",
    licence="that of the data set",
    needs="lhotse:PATH as a name, such as lhotse:data/cuts.jsonl.gz; the label in a custom field "
    "of cuts or supervisions",
    read=lambda tree, pattern: read_lhotse(pattern, "", tree.root, Columns())[0],
    subset_of="path",
)
SHAR = KnownCorpus(
    name="shar",
    title="Shards that lhotse wrote (Shar)",
    homepage="https://lhotse.readthedocs.io/en/latest/shar.html",
    licence="that of the data set",
    needs="shar:FOLDER as a name, with cuts.000000.jsonl.gz and recording.000000.tar; the label in "
    "a custom field, or beside as label.000000.jsonl.gz",
    read=lambda tree, pattern: read_shar(pattern, "", tree.root, Columns())[0],
    subset_of="path",
)
