"""Which recordings a command line means: files, folders with all that is in them, lists.

Invariant: what is named by mistake (a file that is not there, a folder without audio, a malformed list) is found
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
from typing import overload

from asdf.errors import AsdfError, UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.text import shorten
from asdf.trials.lines import numbered_lines
from asdf.trials.lists import read_list

LIST_SUFFIXES = frozenset({".txt", ".lst"})


@dataclass(frozen=True)
class Recording:
    """A recording to score; `name` and `label` (1 bona fide, 0 spoof) are those of a list in ASDF's format."""

    path: Path
    name: str = ""
    label: int | None = None


class Recordings(Sequence[Recording]):
    """Many recordings in little memory: a path is a `str`, and a name that is one."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._names: list[str] = []
        self._labels = array("b")
        self._known: set[str] = set()

    def add(self, recording: Recording) -> None:
        """Append a recording, unless it is there already."""
        path = str(recording.path)
        if path in self._known:
            return
        self._known.add(path)
        self.paths.append(path)
        self._names.append(recording.name)
        self._labels.append(-1 if recording.label is None else recording.label)

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
    def are_labelled(self) -> bool:
        """Whether each of them has a label."""
        return -1 not in self._labels

    @property
    def names(self) -> Sequence[str]:
        """The names that lists give them; '' without one."""
        return self._names

    @property
    def labels(self) -> Sequence[int]:
        """1 bona fide, 0 spoof, -1 not known."""
        return self._labels

    def digest(self) -> str:
        """All paths, names and labels in their order, as a short text."""
        digest = hashlib.sha256(self._labels.tobytes())
        for text in chain(self.paths, self._names):
            digest.update(os.fsencode(text) + b"\0")
        return digest.hexdigest()


def find_recordings(named: Iterable[str], folder: Path | None = None) -> Recordings:
    """The recordings that `named` files, folders and lists (.txt, .lst) stand for, in their order.

    Folders are searched to the bottom for files with a suffix of audio, in the order of their names, without macOS's
    `._*`. A list holds one path per line, or is in ASDF's format (`relative/path.flac 1`), which its first line shows.

    Args:
        folder: what the paths in lists are relative to; None: the list's own folder.

    Raises:
        UsageError: there is no such file or folder, a folder holds no audio, or a list is empty or malformed.
    """
    recordings = Recordings()
    for name in named:
        for recording in _stands_for(Path(name), folder):
            recordings.add(recording)
    return recordings


def _stands_for(path: Path, folder: Path | None) -> Iterable[Recording]:
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be searched
        name = shorten(str(path))
        raise UsageError(f"cannot look for {name}: {error.strerror}. Check the path.") from None
    if is_folder:
        return _inside(path)
    if not is_there:
        raise UsageError(f"there is no file or folder {path}; it is relative to {Path.cwd()}.")
    if path.suffix.lower() not in LIST_SUFFIXES:
        return [Recording(path)]
    return _listed(path, path.parent if folder is None else folder)


def _inside(folder: Path) -> Iterator[Recording]:
    found = False
    for file in _audio_in(folder):
        found = True
        yield Recording(file)
    if not found:
        raise UsageError(
            f"there is no audio in the folder {folder}. Looked for {' '.join(sorted(AUDIO_SUFFIXES))}"
        )


def _audio_in(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise UsageError(
            f"cannot list the folder {error.filename}: {error.strerror}. Check its permissions."
        )

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders.sort()
        for name in sorted(files):
            if Path(name).suffix.lower() in AUDIO_SUFFIXES and not name.startswith("._"):
                yield Path(place, name)


def _listed(path: Path, folder: Path) -> Iterator[Recording]:
    try:
        # The name of a file is any bytes; one that is no UTF-8 is read as the file system's functions write it.
        lines = (line for _, line in numbered_lines(path, errors="surrogateescape"))
        first = next(lines, None)
        if first is None:
            raise UsageError(f"the list {path} is empty: it should name one recording per line.")
        if first.rpartition(" ")[2] not in ("0", "1"):
            yield from (Recording(folder / line) for line in chain([first], lines))
            return
        lines.close()
        utterances = read_list(path, folder)
    except AsdfError as error:
        raise UsageError(str(error)) from None
    for index, name in enumerate(utterances.ids):
        yield Recording(utterances.path(index), name, int(utterances.labels[index]))
