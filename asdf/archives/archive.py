"""The common interface of archives: named files, read in place.

Invariant: a member's bytes are those of the indexed archive, and names are looked up in the same
way in every format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from asdf.archives.index import NameIndex
from asdf.archives.store import ArchiveState


class FileState(NamedTuple):
    """The size of a file in bytes and its modification time in ns.

    A member has the time of its archive; a row of a parquet file has its size as well.
    """

    size: int
    changed_ns: int


class Member(ABC):
    """A file in an archive."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of bytes."""

    @property
    @abstractmethod
    def state(self) -> FileState:
        """The state of the file, which shows changes without reading it."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """Open the member's bytes, which are read on demand.

        Raises:
            AsdfError: the archive has changed since it was opened, or is damaged.
        """


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


class FolderInArchive(NamedTuple):
    """A folder `name` in an archive; '' is the archive itself."""

    archive: Archive
    name: str

    def find(self, file_name: str) -> Member | None:
        """Return the file `file_name` in this folder."""
        if self.name:
            file_name = f"{self.name}/{file_name}"
        return self.archive.find(file_name)
