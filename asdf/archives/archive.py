"""What all archives have in common: files with names, read in place.

Invariant: a member's bytes are those of the archive that was indexed, and the names of an archive
are looked up in one way, whatever its format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from asdf.archives.index import NameIndex
from asdf.archives.store import ArchiveState


class FileState(NamedTuple):
    """Bytes of a file and its time of change in ns.

    A member has the time of its archive, and a row of a parquet file its size too.
    """

    size: int
    changed_ns: int


class Member(ABC):
    """A file in an archive."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many bytes it has."""

    @property
    @abstractmethod
    def state(self) -> FileState:
        """What shows that it was changed, without reading it."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """Open its bytes, which are read as they are needed.

        Raises:
            AsdfError: the archive was changed after it was opened, or is damaged.
        """


class Archive(ABC):
    """An open archive.

    Attributes:
        root: Name of the folder and a slash, where all members begin with it; else ''.
        index: Names of the members, sorted.
    """

    path: Path
    state: ArchiveState
    index: NameIndex
    root: str = ""

    @abstractmethod
    def member(self, position: int) -> Member:
        """Return the member at `position` of the index."""

    @abstractmethod
    def offset(self, position: int) -> int:
        """Return what orders the members as they were written: a byte, or the number of a row."""

    def find(self, name: str) -> Member | None:
        """Return the file `name`, with the archive's root or without it."""
        position = self.index.find(self.root + name)
        # A path may also be spelled as tar lists it, with the root.
        if position is None and self.root:
            position = self.index.find(name)
        return None if position is None else self.member(position)

    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of the files in `folder` and below it, relative to `folder`, in order."""
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
    """A folder `name` of an archive; '' is the archive itself."""

    archive: Archive
    name: str

    def find(self, file_name: str) -> Member | None:
        """Return the file `file_name` of this folder."""
        if self.name:
            file_name = f"{self.name}/{file_name}"
        return self.archive.find(file_name)
