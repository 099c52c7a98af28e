"""Recordings on a command line: files, folders with all their content, lists.

Invariant: a wrong name (a missing file, a folder without audio, a malformed list) is reported
before anything is scored; each recording is scored once, however often it is given.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, overload

from asdf.corpora import parse_located
from asdf.errors import AsdfError, UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.recipe.declared_corpora import read_named
from asdf.segments import Speaker
from asdf.text import from_here, is_address, shorten
from asdf.trials.label_lines import is_csv_list
from asdf.trials.lists import is_any_table, read_list
from asdf.trials.table import is_trials_file
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import REFERENCE, UNLABELLED, TrialList

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


class Recordings(Sequence[Recording]):
    """Many recordings in little memory: paths and names are `str`, labels are one byte each."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._names: list[str] = []
        self._labels = array("b")
        # Strings, because a million `Path` objects need several times the memory.
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
            self._references[len(self.paths)] = recording.reference
        self._append(path, recording)

    def _append(self, path: str, recording: Recording) -> None:
        self.paths.append(path)
        self._names.append(recording.name)
        self._labels.append(-1 if recording.label is None else recording.label)

    def set_label(self, label: int) -> None:
        """Label all recordings alike; those without a list get their paths as names.

        Raises:
            UsageError: a list states the other class for one of them.
        """
        for index, known in enumerate(self._labels):
            if known not in (-1, label):
                raise UsageError(
                    f"--label gives all recordings the same class, but a list gives "
                    f"{self.paths[index]} the other class. Leave --label out, or score the list in "
                    "a separate command."
                )
            self._labels[index] = label
            self._names[index] = self._names[index] or self.paths[index]

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> Recording: ...
    @overload
    def __getitem__(self, index: slice) -> list[Recording]: ...
    def __getitem__(self, index: int | slice) -> Recording | list[Recording]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        label = self._labels[index]
        return Recording(Path(self.paths[index]), self._names[index], label if label >= 0 else None)

    @property
    def sources(self) -> Sequence[Any]:
        """Input of `Detector.score_many`: the paths."""
        return self.paths

    def speaker(self, index: int) -> Speaker | None:
        """Return the speaker of a score; None: the score is of the whole recording."""
        return None

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
        return -1 not in self._labels

    @property
    def names(self) -> Sequence[str]:
        """The names of the recordings in lists; '' without a list."""
        return self._names

    @property
    def labels(self) -> Sequence[int]:
        """Label per recording: 1 bona fide, 0 spoof, -1 unknown."""
        return self._labels

    def digest(self) -> str:
        """Digest all paths, names and labels in their order."""
        digest = hashlib.sha256(self._labels.tobytes())
        for text in chain(self.paths, self._names):
            # No path contains NUL, so that 'a', 'bc' and 'ab', 'c' have different digests.
            digest.update(os.fsencode(text) + b"\0")
        for index, reference in self._references.items():
            digest.update(os.fsencode(f"{index}\0{reference}"))
        return digest.hexdigest()


def find_recordings(names: Iterable[str], folder: Path | None = None) -> Recordings:
    """Return the recordings of the given files, folders and lists, in their order.

    Folders are searched recursively for files with an audio suffix, sorted by name, without macOS's
    `._*`. A list (.txt, .lst, .csv, .tsv) has one path per line, or any format of `read_list`
    (`relative/path.flac 1`, a csv with path,label, a table of trials), which its first line
    determines. Third-party shards and manifests are named like corpora (`webdataset:PATH`,
    `shar:FOLDER`, `lhotse:CUTS`, `datasets:FOLDER`).

    Args:
        folder: Folder that the paths in lists are relative to; None: the list's own folder.

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
        if parse_located(name) is None:
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
        return _recordings_in_folder(path)
    if not exists:
        raise UsageError(f"there is no file or folder {path}{from_here(path)}.")
    if path.suffix.lower() not in LIST_SUFFIXES:
        return [Recording(path)]
    return _recordings_in_list(path, path.parent if folder is None else folder)


def _recordings_in_folder(folder: Path) -> Iterator[Recording]:
    is_empty = True
    for file in _audio_files(folder):
        is_empty = False
        yield Recording(file)
    if is_empty:
        suffixes = " ".join(sorted(AUDIO_SUFFIXES))
        raise UsageError(
            f"there are no audio files in the folder {folder}. Known suffixes: {suffixes}"
        )


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
