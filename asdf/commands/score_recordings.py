"""The recordings that a command line names: files, folders with all that is in them, lists.

Invariant: a wrong name (a missing file, a folder without audio, a malformed list) is reported
before anything is scored; each recording is scored once however often it is named.
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
from asdf.recipe.located_corpora import read_named
from asdf.remote import SHOWN_SCHEMES, as_path, find_objects, is_remote, join_path
from asdf.segments import Speaker
from asdf.text import from_here, is_address, shorten
from asdf.trials.label_lines import is_csv_list
from asdf.trials.lists import is_any_table, read_list
from asdf.trials.table import is_trials_file
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import UNLABELLED, TrialList

LIST_SUFFIXES = frozenset({".txt", ".lst", ".csv", ".tsv"})
_TABLES = frozenset({".csv", ".tsv"})


@dataclass(frozen=True)
class Recording:
    """A recording to score; `name` and `label` (1 bona fide) come from a list in ASDF's format.

    So do the paths of `references` that it is compared with.
    """

    path: Path
    name: str = ""
    label: int | None = None
    references: tuple[str, ...] = ()


class Recordings(Sequence[Recording]):
    """Many recordings in little memory: paths and names are `str`, labels one byte each."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._names: list[str] = []
        self._labels = array("b")
        # As text: a million `Path` objects take several times the memory.
        self._known: set[str | tuple[str, ...]] = set()
        # Of recordings that have some: few lists do.
        self._references: dict[int, tuple[str, ...]] = {}

    def add(self, recording: Recording) -> None:
        """Append a recording, unless its path was added before."""
        path = str(recording.path)
        key = (path, *recording.references) if recording.references else path
        if key in self._known:
            return
        self._known.add(key)
        if recording.references:
            self._references[len(self.paths)] = recording.references
        self._append(path, recording)

    def _append(self, path: str, recording: Recording) -> None:
        self.paths.append(path)
        self._names.append(recording.name)
        self._labels.append(-1 if recording.label is None else recording.label)

    def set_label(self, label: int) -> None:
        """Say that all are of one class; those of no list get their paths as names.

        Raises:
            UsageError: a list says that one is of the other class.
        """
        for index, known in enumerate(self._labels):
            if known not in (-1, label):
                raise UsageError(
                    f"--label is of all recordings, and a list says that {self.paths[index]} is of "
                    "the other class. Leave --label out, or name the list by itself."
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
        return Recording(
            as_path(self.paths[index]), self._names[index], label if label >= 0 else None
        )

    @property
    def sources(self) -> Sequence[Any]:
        """What is scored, as `Detector.score_many` takes it: the paths."""
        return self.paths

    def speaker(self, index: int) -> Speaker | None:
        """Return the speaker whom a score is of; None: it is of the recording."""
        return None

    @property
    def are_compared(self) -> bool:
        """Whether each recording has references that it is compared with."""
        return 0 < len(self._references) == len(self)

    def references(self, index: int) -> tuple[str, ...]:
        """Return the paths of the references of a recording; () for none."""
        return self._references.get(index, ())

    def by_references(self) -> dict[tuple[str, ...], list[int]]:
        """Return the indices of recordings by the paths of their references, () for none."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for index in range(len(self)):
            groups.setdefault(self.references(index), []).append(index)
        return groups

    @property
    def are_labelled(self) -> bool:
        """Whether each recording has a label."""
        return -1 not in self._labels

    @property
    def names(self) -> Sequence[str]:
        """The names of the recordings in lists; '' for those of no list."""
        return self._names

    @property
    def labels(self) -> Sequence[int]:
        """1 bona fide, 0 spoof, -1 not known, per recording."""
        return self._labels

    def digest(self) -> str:
        """Digest all paths, names and labels in their order."""
        digest = hashlib.sha256(self._labels.tobytes())
        for text in chain(self.paths, self._names):
            digest.update(os.fsencode(text) + b"\0")
        for index, references in self._references.items():
            digest.update(os.fsencode("\0".join((str(index), *references))))
        return digest.hexdigest()


def find_recordings(names: Iterable[str], folder: Path | None = None) -> Recordings:
    """Return the recordings of the named files, folders and lists, in their order.

    Folders are searched to the bottom for files with a suffix of audio, sorted by name, without
    macOS's `._*`. A list (.txt, .lst, .csv, .tsv) holds one path per line, or is any that
    `read_list` reads (`relative/path.flac 1`, a csv with path,label, a table of trials), as its
    first line shows. Shards and manifests of others are named as corpora are
    (`webdataset:PATH`, `shar:FOLDER`, `lhotse:CUTS`, `datasets:FOLDER`).

    Args:
        folder: Folder that the paths in lists are relative to; None: the list's own folder.

    Raises:
        UsageError: there is no such file or folder, a folder holds no audio, or a list is empty or
            malformed.
    """
    recordings = Recordings()
    for name in names:
        if is_address(name) and not is_remote(name):
            schemes = ", ".join(f"{scheme}://" for scheme in SHOWN_SCHEMES)
            raise UsageError(
                f"{name} is an address that is not read: give one that begins with {schemes}, or "
                "pipe it: curl -L ADDRESS | python -m asdf score NETWORK -"
            )
        if parse_located(name) is None:
            found = _recordings_of(as_path(name), folder)
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
        # A name that is too long, or a folder that may not be searched.
        name = shorten(str(path))
        raise UsageError(f"cannot look for {name}: {error.strerror}. Check the path.") from None
    if is_folder:
        return _recordings_in_folder(path)
    if not exists:
        raise UsageError(f"there is no file or folder {path}{from_here(path)}.")
    if path.suffix.lower() not in LIST_SUFFIXES:
        return [Recording(path)]
    return _recordings_in_list(path, path.parent if folder is None else folder)


def _recordings_in_folder(folder: Path) -> Iterator[Recording]:
    is_empty = True
    files = _audio_objects(folder) if is_remote(folder) else _audio_files(folder)
    for file in files:
        is_empty = False
        yield Recording(file)
    if is_empty:
        suffixes = " ".join(sorted(AUDIO_SUFFIXES))
        raise UsageError(f"there is no audio in the folder {folder}. Looked for {suffixes}")


def _audio_objects(folder: Path) -> Iterator[Path]:
    for name in find_objects(str(folder)):
        path = join_path(folder, name)
        if path.suffix.lower() in AUDIO_SUFFIXES and not path.name.startswith("._"):
            yield path


def _audio_files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise UsageError(
            f"cannot list the folder {error.filename}: {error.strerror}. Check its permissions."
        )

    for parent, folders, files in os.walk(folder, onerror=refuse):
        # In place, which os.walk follows: the order is the same on every file system.
        folders.sort()
        for name in sorted(files):
            if Path(name).suffix.lower() in AUDIO_SUFFIXES and not name.startswith("._"):
                yield Path(parent, name)


def _recordings_in_list(path: Path, folder: Path) -> Iterator[Recording]:
    try:
        # A file's name is any bytes; those that are no UTF-8 are read as os.fsdecode reads them.
        lines = (line for _, line in numbered_lines(path, errors="surrogateescape"))
        first = next(lines, None)
        if first is None:
            raise UsageError(f"the list {path} is empty: it should name one recording per line.")
        is_table = is_trials_file(first) or is_csv_list(first)
        # Lists without labels may have commas in names; files called csv are tables.
        if path.suffix.lower() in _TABLES and not is_table:
            is_table = is_any_table(first)
        if not is_table and first.rpartition(" ")[2] not in ("0", "1"):
            yield from (Recording(join_path(folder, line)) for line in chain([first], lines))
            return
        # `read_list` opens the file again, to check all of it.
        lines.close()
        utterances = read_list(path, folder)
    except AsdfError as error:
        advice = ""
        if path.suffix.lower() in _TABLES:
            advice = " To score without labels, write one path per line into a .txt."
        raise UsageError(f"{error}{advice}") from None
    yield from _recordings_of_trials(utterances, folder)


def _recordings_of_trials(utterances: TrialList, folder: Path | None) -> Iterator[Recording]:
    for index, name in enumerate(utterances.ids):
        label = int(utterances.labels[index])
        if label == UNLABELLED:
            yield Recording(utterances.path(index))
            continue
        references: tuple[str, ...] = ()
        if utterances.references is not None:
            start = folder or utterances.folder
            references = tuple(
                str(join_path(start, each)) for each in utterances.references.of(index)
            )
        yield Recording(utterances.path(index), name, label, references)
