"""The common interface of archives: named files, read in place.

Invariant: a member's bytes are those of the indexed archive, and names are looked up in the same
way in every format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asdf.extras.stores.index import NameIndex
from asdf.extras.stores.open_files import ArchiveState
from asdf.places import Member, Place


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
