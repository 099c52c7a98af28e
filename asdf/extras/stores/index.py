"""Archives of named files: the port that tars and parquet files share, and sorted names.

Invariant: names are looked up in the same way in every format, and an archive is identified by its
state.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asdf.places import Member, Place
from asdf.text import AnyPath


class ArchiveState(NamedTuple):
    """The state of an archive, which changes when it is replaced or written to.

    Attributes:
        inode: Inode number of the file.
        changed_ns: Modification time in ns.
    """

    inode: int
    size: int
    changed_ns: int


def read_state(status: os.stat_result) -> ArchiveState:
    """Return the archive state for the result of a stat."""
    return ArchiveState(status.st_ino, status.st_size, status.st_mtime_ns)


def absolute(path: AnyPath) -> str:
    """Return the path that identifies an archive, or a recording in it; links are not resolved."""
    # A link's own name is the one used by the corpus.
    return os.path.abspath(path)  # noqa: PTH100


@dataclass(frozen=True)
class NameIndex:
    """Sorted names of members as one block: a million names take some 50 MB.

    Attributes:
        ends: Offset of each name's end in `names`, int64.
        names: Concatenated names in UTF-8.
    """

    ends: np.ndarray
    names: bytes

    def __len__(self) -> int:
        return len(self.ends)

    def name(self, position: int) -> str:
        return self._name(position).decode("utf-8", "surrogateescape")

    def find(self, name: str) -> int | None:
        """Return the position of the member `name`."""
        wanted = encode_name(name)
        position = self._first_from(wanted)
        if position < len(self) and self._name(position) == wanted:
            return position
        return None

    def below(self, folder: str) -> range:
        """Return the positions of the members below `folder`; '' for all of them."""
        if not folder:
            return range(len(self))
        # '0' is the character after '/'.
        start = self._first_from(encode_name(folder + "/"))
        stop = self._first_from(encode_name(folder + "0"))
        return range(start, stop)

    def all_below(self, folder: str) -> bool:
        """Whether there are members and all of them lie below `folder`."""
        return len(self) > 0 and len(self.below(folder)) == len(self)

    def _first_from(self, name: bytes) -> int:
        """Return the position of the first member whose name is not less than `name`."""
        return bisect_left(range(len(self)), name, key=self._name)

    def _name(self, position: int) -> bytes:
        start = self.ends.item(position - 1) if position else 0
        return self.names[start : self.ends.item(position)]


def encode_name(name: str) -> bytes:
    """Return a name in the form of the index; a file name may hold bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape")


class Archive(ABC):
    """An open archive.

    Attributes:
        root: Name of the folder that contains all members, with a slash; else ''.
        index: Names of the members, sorted.
    """

    path: Path
    state: ArchiveState
    index: NameIndex
    root: str = ""

    @abstractmethod
    def member(self, position: int) -> Member:
        """Return the member at `position` in the index."""

    @abstractmethod
    def offset(self, position: int) -> int:
        """Return a key for the order in which members were written: an offset or a row number."""

    def find(self, name: str) -> Member | None:
        """Return the file `name`, given with or without the archive's root."""
        position = self.index.find(self.root + name)
        # The name may include the root, as tar lists it.
        if position is None and self.root:
            position = self.index.find(name)
        return None if position is None else self.member(position)

    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of the files below `folder`, relative to it, in order."""
        positions = self._below(folder)
        start = f"{self.root}{folder}/" if folder else self.root
        if positions and not self.index.name(positions[0]).startswith(start):
            start = f"{folder}/"
        for position in positions:
            yield self.index.name(position)[len(start) :]

    def is_folder(self, name: str) -> bool:
        return not name or len(self._below(name)) > 0

    def _below(self, folder: str) -> range:
        positions = self.index.below((self.root + folder).rstrip("/"))
        if positions or not self.root:
            return positions
        return self.index.below(folder)


@dataclass(frozen=True)
class FolderInArchive(Place):
    """A folder `name` in an archive; '' is the archive itself."""

    archive: Archive
    name: str

    @property
    def path(self) -> Path:
        return self.archive.path / self.name

    def find(self, name: str) -> Member | None:
        return self.archive.find(self._inner(name))

    def names(self, folder: str = "") -> Iterator[str]:
        return self.archive.names(self._inner(folder))

    def is_folder(self, name: str = "") -> bool:
        return self.archive.is_folder(self._inner(name))

    def _inner(self, name: str) -> str:
        return f"{self.name}/{name}" if self.name and name else self.name or name
