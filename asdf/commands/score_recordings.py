"""Recordings on a command line: files, folders with all their content, lists, corpora.

Invariant: a wrong name (a missing file, a folder without audio, a malformed list) is reported
before anything is scored; each recording is scored once, however often it is given.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.outputs import STANDARD_INPUT
from asdf.corpora import parse_located, read_class_folders
from asdf.errors import AsdfError, UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.places import near_name, split_part
from asdf.recipe.declared_corpora import read_named
from asdf.runs.log import LOG
from asdf.text import from_here, is_address, shorten
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
        self._known: dict[str, int] = {}
        # Only of recordings that have one, which few lists do.
        self._references: dict[int, str] = {}

    def add(self, recording: Recording) -> None:
        """Append a recording, unless its path was added already.

        Raises:
            UsageError: it was added with the other label.
        """
        path = str(recording.path)
        label = -1 if recording.label is None else recording.label
        if path in self._known:
            if {label, self._known[path]} == {0, 1}:
                raise UsageError(f"{path} has both labels. Correct the lists, or leave one out.")
            return
        self._known[path] = label
        if recording.reference:
            self._references[len(self)] = recording.reference
        self.paths.append(path)
        self.names.append(recording.name)
        self.labels.append(label)

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
                    f"--label: a list gives {self.paths[index]} the other class. Leave --label out."
                )
            self.labels[index] = label
            self.names[index] = self.names[index] or self.paths[index]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Recording:
        label = self.labels[index]
        return Recording(Path(self.paths[index]), self.names[index], label if label >= 0 else None)

    def by_reference(self) -> dict[str, Sequence[int]]:
        """Return the indices of recordings by the paths of their references, '' for none."""
        groups: dict[str, list[int]] = {}
        for index in range(len(self)):
            groups.setdefault(self._references.get(index, ""), []).append(index)
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
                f"two recordings have the name {name}, by which an RTTM file names them. Score "
                "them in separate commands."
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
        for recording in _recordings_of(name, folder, classes):
            recordings.add(recording)
    return recordings


def _recordings_of(name: str, folder: Path | None, classes: bool) -> Iterable[Recording]:
    path = Path(name)
    if is_address(name):
        raise UsageError(
            f"{name} is an address. Download it, or use a pipe: curl -L ADDRESS | python -m asdf "
            "score NETWORK -"
        )
    try:
        is_folder = path.is_dir()
        exists = is_folder or path.exists()
    except OSError as error:
        # The name is too long, or the folder may not be searched.
        raise UsageError(f"cannot access {shorten(name)}: {error.strerror}.") from None
    if classes and is_folder:
        return _recordings_of_trials(read_classes(path), None)
    if parse_located(name) is not None:
        return _recordings_of_trials(read_named(name, folder or Path()), folder)
    if is_folder:
        files = list(audio_files(path))
        if not files:
            suffixes = " ".join(sorted(AUDIO_SUFFIXES))
            raise UsageError(f"{path} has no audio files. Known suffixes: {suffixes}")
        return map(Recording, files)
    if path.suffix.lower() in LIST_SUFFIXES and exists:
        return _recordings_in_list(path, path.parent if folder is None else folder)
    file, part = split_part(name)
    if not exists and (part is None or not Path(file).is_file()):
        raise UsageError(f"there is no file or folder {path}{from_here(path)}.{near_name(path)}")
    return [Recording(path)]


def audio_files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise UsageError(f"cannot list the folder {error.filename}: {error.strerror}.")

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


@contextmanager
def saved_standard_input(names: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
    """Copy standard input to a file, if '-' is among the names.

    Yields:
        Names, with '-' replaced by the path of that file; and the path, '' without one.

    Raises:
        AsdfError: standard input cannot be read.
    """
    if not any(name in STANDARD_INPUT for name in names):
        yield names, ""
        return
    with tempfile.NamedTemporaryFile(prefix="asdf-") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.flush()
        except OSError as error:
            raise AsdfError(f"cannot read standard input: {error.strerror or error}.") from None
        yield [file.name if name in STANDARD_INPUT else name for name in names], file.name
