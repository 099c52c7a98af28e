"""Recordings on a command line: files, folders with all their content, lists, corpora.

Invariant: a wrong name (a missing file, a folder without audio, a malformed list) is reported
before anything is scored; each recording is scored once, however often it is given.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.corpora import (
    has_class_folders,
    is_known,
    parse_located,
    read_class_folders,
    read_protocol,
)
from asdf.errors import AsdfError, UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.places import near_name, split_part
from asdf.recipe.declared_corpora import read_named
from asdf.runs.log import LOG
from asdf.segments import Speaker
from asdf.text import from_here, is_address, quoted_and_more, shorten
from asdf.trials.label_files import is_csv_list
from asdf.trials.lists import is_any_table, open_tree, read_list
from asdf.trials.table import is_trials_file
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import REFERENCE, UNLABELLED, TrialList, bare_name

if TYPE_CHECKING:
    from asdf.scoring.columns import ScoreColumn
    from asdf.scoring.speakers import SpeakerRecording

LIST_SUFFIXES = frozenset({".txt", ".lst", ".csv", ".tsv"})
_TABLES = frozenset({".csv", ".tsv"})
_SHOWN = 5


@dataclass(frozen=True)
class Recording:
    """A recording to score; `name` and `label` (1 bona fide) come from a list in ASDF's format.

    The list may also state the path of its `reference`; '' without one.
    """

    path: Path
    name: str = ""
    label: int | None = None
    reference: str = ""


class Recordings:
    """Many recordings in little memory: paths and names are `str`, labels are one byte each.

    Attributes:
        paths: Paths of the recordings.
        names: Names of the recordings in lists; '' without a list.
        labels: Label per recording: 1 bona fide, 0 spoof, -1 unknown.
        speakers: Speech of each speaker alone, if recordings are scored by speaker; else empty.
        columns: Columns of the scores that these recordings bring.
        notes: Sentences on what is scored of them.
    """

    columns: tuple[ScoreColumn, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(self) -> None:
        # Strings, because a million `Path` objects need several times the memory.
        self.paths: list[str] = []
        self.names: list[str] = []
        self.labels = array("b")
        self.speakers: list[SpeakerRecording] = []
        self._known: set[str] = set()
        # Only of recordings that have one, which few lists do.
        self._references: dict[int, str] = {}

    def add(self, recording: Recording) -> None:
        """Append a recording, unless its path was added already."""
        path = str(recording.path)
        if path in self._known:
            return
        self._known.add(path)
        if recording.reference:
            self._references[len(self)] = recording.reference
        self.paths.append(path)
        self.names.append(recording.name)
        self.labels.append(-1 if recording.label is None else recording.label)

    def add_speaker(self, speaker: SpeakerRecording) -> None:
        """Append a speaker of a recording, without its label, which is not that of each speaker."""
        self.paths.append(str(speaker.path))
        self.names.append("")
        self.labels.append(-1)
        self.speakers.append(speaker)

    def set_label(self, label: int) -> None:
        """Label all recordings alike; those without a list get their paths as names.

        Raises:
            UsageError: a list states the other class for one of them.
        """
        for index, known in enumerate(self.labels):
            if known not in (-1, label):
                raise UsageError(
                    f"--label gives all recordings the same class, but a list gives "
                    f"{self.paths[index]} the other class. Leave --label out, or score the list in "
                    "a separate command."
                )
            self.labels[index] = label
            self.names[index] = self.names[index] or self.paths[index]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Recording:
        label = self.labels[index]
        return Recording(Path(self.paths[index]), self.names[index], label if label >= 0 else None)

    @property
    def sources(self) -> Sequence[Any]:
        """Input of `Detector.score_many`: the paths, or the speakers."""
        return self.speakers or self.paths

    def speaker(self, index: int) -> Speaker | None:
        """Return the speaker of a score; None: the score is of the whole recording."""
        return self.speakers[index].speaker if self.speakers else None

    def reference(self, index: int) -> str:
        """Return the path of the reference of a recording; '' for none."""
        return self._references.get(index, "")

    def by_reference(self) -> dict[str, Sequence[int]]:
        """Return the indices of recordings by the paths of their references, '' for none."""
        groups: dict[str, list[int]] = {}
        for index in range(len(self)):
            groups.setdefault(self.reference(index), []).append(index)
        return dict(groups)

    @property
    def are_labelled(self) -> bool:
        """Whether each recording has a label."""
        return -1 not in self.labels

    def digest(self) -> str:
        """Digest all paths, names, labels and stretches of speakers in their order."""
        digest = hashlib.sha256(self.labels.tobytes())
        for text in chain(self.paths, self.names):
            # No path contains NUL, so that 'a', 'bc' and 'ab', 'c' have different digests.
            digest.update(os.fsencode(text) + b"\0")
        for index, reference in self._references.items():
            digest.update(os.fsencode(f"{index}\0{reference}"))
        for source in self.speakers:
            # The same recording with other turns is other work.
            digest.update(repr(source.speaker).encode())
        return digest.hexdigest()


def with_speakers(recordings: Recordings, rttm: Path) -> Recordings:
    """Return the speakers of the recordings, whose turns are in an RTTM, each as a recording.

    Raises:
        UsageError: two recordings have the same name, or the turns cannot be read, or a recording
            has none.
    """
    from asdf.scoring.recordings import as_recording
    from asdf.scoring.speakers import (
        SPEAKERS_NOTE,
        SpeakerColumn,
        find_speakers,
        speaker_recordings,
    )

    names = [bare_name(path) for path in recordings.paths]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two recordings have the name {name}, by which an RTTM file identifies "
                "recordings. Score them in separate commands."
            )
    speakers = Recordings()
    speakers.columns = (SpeakerColumn(),)
    speakers.notes = (SPEAKERS_NOTE,)
    for path in recordings.paths:
        try:
            alone = speaker_recordings(as_recording(path), find_speakers(rttm, path))
        except AsdfError as error:
            raise UsageError(str(error)) from None
        for each in alone:
            speakers.add_speaker(each)
    return speakers


def find_recordings(
    names: Iterable[str], folder: Path | None = None, classes: bool = False
) -> Recordings:
    """Return the recordings of the given files, folders and lists, in their order.

    Folders are searched recursively for files with an audio suffix, sorted by name, without macOS's
    `._*`. A list (.txt, .lst, .csv, .tsv) has one path per line, or any format of `read_list`
    (`relative/path.flac 1`, a csv with path,label, a table of trials), which its first line
    determines. Third-party shards and manifests are named like corpora (`webdataset:PATH`,
    `shar:FOLDER`, `lhotse:CUTS`, `datasets:FOLDER`).

    Args:
        folder: Folder that the paths in lists are relative to; None: the list's own folder.
        classes: Whether subfolders such as real/ and fake/ determine the classes of recordings.

    Raises:
        UsageError: a file or folder does not exist, a folder has no audio, or a list is empty or
            malformed.
    """
    recordings = Recordings()
    for name in names:
        if is_address(name):
            raise UsageError(
                f"{name} is an address, not a file. Download it, mount the store, or use a pipe: "
                "curl -L ADDRESS | python -m asdf score NETWORK -"
            )
        found: Iterable[Recording]
        if classes and Path(name).is_dir():
            found = _recordings_of_trials(read_classes(Path(name)), None)
        elif parse_located(name) is None:
            found = _recordings_of(Path(name), folder)
        else:
            found = _recordings_of_trials(read_named(name, folder or Path()), folder)
        for recording in found:
            recordings.add(recording)
    return recordings


def _recordings_of(path: Path, folder: Path | None) -> Iterable[Recording]:
    try:
        is_folder = path.is_dir()
        exists = is_folder or path.exists()
    except OSError as error:
        # The name is too long, or the folder may not be searched.
        name = shorten(str(path))
        raise UsageError(f"cannot access {name}: {error.strerror}. Check the path.") from None
    if is_folder:
        files = list(_audio_files(path))
        if not files:
            suffixes = " ".join(sorted(AUDIO_SUFFIXES))
            raise UsageError(
                f"there are no audio files in the folder {path}. Known suffixes: {suffixes}"
            )
        return map(Recording, files)
    if not exists:
        file, part = split_part(str(path))
        if part is not None and Path(file).is_file():
            return [Recording(path)]
        raise UsageError(f"there is no file or folder {path}{from_here(path)}.{near_name(path)}")
    if path.suffix.lower() not in LIST_SUFFIXES:
        return [Recording(path)]
    return _recordings_in_list(path, path.parent if folder is None else folder)


def _audio_files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise UsageError(
            f"cannot list the folder {error.filename}: {error.strerror}. Check its permissions."
        )

    for parent, folders, files in os.walk(folder, onerror=refuse):
        # Sorted in place, which os.walk follows: the order is the same on every file system.
        folders.sort()
        for name in sorted(files):
            if Path(name).suffix.lower() in AUDIO_SUFFIXES and not name.startswith("._"):
                yield Path(parent, name)


def _recordings_in_list(path: Path, folder: Path) -> Iterator[Recording]:
    try:
        # File names may be any bytes; those that are not UTF-8 are decoded like os.fsdecode does.
        lines = (line for _, line in numbered_lines(path, errors="surrogateescape"))
        first = next(lines, None)
        if first is None:
            raise UsageError(f"the list {path} is empty. Write one recording per line.")
        is_table = is_trials_file(first) or is_csv_list(first)
        # Lists without labels may have commas in names; csv files are tables.
        if path.suffix.lower() in _TABLES and not is_table:
            is_table = is_any_table(first)
        # A path may contain spaces: a label follows the last one.
        if not is_table and first.rpartition(" ")[2] not in ("0", "1"):
            yield from (Recording(folder / line) for line in chain([first], lines))
            return
        # `read_list` opens the file again to check all of it.
        lines.close()
        utterances = read_list(path, folder)
    except AsdfError as error:
        advice = ""
        if path.suffix.lower() in _TABLES:
            advice = " To score without labels, write one path per line into a .txt."
        raise UsageError(f"{error}{advice}") from None
    yield from _recordings_of_trials(utterances, folder)


def _recordings_of_trials(utterances: TrialList, folder: Path | None) -> Iterator[Recording]:
    named = utterances.columns.get(REFERENCE)
    for index, name in enumerate(utterances.ids):
        label = int(utterances.labels[index])
        if label == UNLABELLED:
            yield Recording(utterances.path(index))
            continue
        reference = ""
        if named is not None and named[index]:
            reference = str((folder or utterances.folder) / named[index])
        yield Recording(utterances.path(index), name, label, reference)


def read_recordings(
    named: str, folder: Path | None, subset: str | None = None, *, classes: bool = False
) -> TrialList:
    """Return the trials of an input, with paths.

    Args:
        named: Folder of recordings; list or table of trials; protocol of any corpus; or name of a
            corpus.
        folder: Folder that paths are relative to, or that contains the recordings of a protocol or
            corpus.
        subset: Subset of a protocol.
        classes: Whether subfolders such as real/ and fake/ determine the classes of recordings.

    Raises:
        UsageError: there is no such file or corpus, or it needs a folder.
        AsdfError: it cannot be read, or recordings are missing.
    """
    path = Path(named)
    # A corpus's name takes precedence over a file with that name.
    if is_known(named):
        if folder is None and parse_located(named) is None:
            raise UsageError(
                f"{named} is the name of a corpus, whose location is unknown. Give its folder with "
                "--folder."
            )
        return read_named(named, folder or Path())
    if path.is_dir():
        name = path.name or "recordings"
        if classes and has_class_folders(open_tree(path)):
            reading = read_class_folders(open_tree(path), "")
            return replace(reading.trials, name=name, folder=path)
        ids = [Path(each).relative_to(path).as_posix() for each in find_recordings([named]).paths]
        return TrialList(ids, np.full(len(ids), UNLABELLED, np.int8), name=name, folder=path)
    if not path.exists():
        raise UsageError(
            f"there is no list, folder or corpus {named}. Check the path; `python -m asdf corpora` "
            "lists the names of corpora."
        )
    if subset is None:
        try:
            # Only a file that is not a list is read as a protocol.
            return read_list(path, path.parent if folder is None else folder, path.stem)
        except AsdfError as error:
            if folder is None:
                raise AsdfError(
                    f"{error} If it is a protocol, give the folder of its recordings with --folder."
                ) from None
    if folder is None:
        raise UsageError(
            f"{path} is a protocol, which does not contain paths. Give the folder of its "
            "recordings with --folder."
        )
    return _locate(read_protocol(path, subset), path, folder)


def read_classes(folder: Path) -> TrialList:
    """Return the recordings of a folder with folders of the classes; their ids are their paths.

    Raises:
        AsdfError: no folder determines a class, or folders contradict each other.
    """
    reading = read_class_folders(open_tree(folder), "")
    for note in reading.notes:
        LOG.warning("%s: %s", folder, note)
    ids = [str(folder / name) for name in reading.trials.ids]
    return replace(reading.trials, ids=ids, folder=Path())


def _locate(trials: TrialList, protocol: Path, folder: Path) -> TrialList:
    """Return the trials of a protocol, with the paths of their recordings as ids."""
    paths: dict[str, str] = {}
    for file in _audio_files(folder):
        # For duplicates, the first path in this order is used, on every file system.
        paths.setdefault(bare_name(file.name), file.relative_to(folder).as_posix())
    names = [bare_name(utterance) for utterance in trials.ids]
    missing = [name for name in names if name not in paths]
    if missing:
        raise AsdfError(
            f"{len(missing)} of the {len(trials)} trials of {protocol} have no recording in "
            f"{folder}: {quoted_and_more(missing, _SHOWN)}. The folder is searched for audio files "
            "with these names. Check that --folder is the folder of this set."
        )
    ids = [paths[name] for name in names]
    return replace(trials, ids=ids, name=protocol.stem, folder=folder)
