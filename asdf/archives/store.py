"""What archives are read from: a file of a disk, an object of a store, or a local copy of one.

Invariant: whoever reads a member asks for bytes by offset and does not know where they come from.
The state that an archive is known by is that of its store: a changed object is another archive,
also where an older copy of it lies on the disk. A file of a disk is read by `pread` and nothing
else.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from asdf.archives.local_copies import copies_folder, local_copy, mark_used
from asdf.remote import (
    ObjectState,
    Range,
    address_of,
    as_path,
    is_remote,
    object_state,
    read_object,
    read_objects,
)
from asdf.runs.systems import open_flags, read_at
from asdf.text import AnyPath

# Seconds between two notes of one process that it uses a copy.
_NOTED_S = 5.0


class ArchiveState(NamedTuple):
    """What changes when another file takes the archive's name, or it is written to.

    Attributes:
        inode: Number of the file on its disk; 0 of an object.
        changed_ns: Time of change, in ns; of an object, the digest of its version.
    """

    inode: int
    size: int
    changed_ns: int


def read_state(status: os.stat_result) -> ArchiveState:
    """Return the state of an archive with this status."""
    return ArchiveState(status.st_ino, status.st_size, status.st_mtime_ns)


def state_of(path: Path) -> ArchiveState:
    """Return the state of the archive at `path`.

    Raises:
        OSError: there is none, or it cannot be looked at.
        AsdfError: its store does not answer.
    """
    if not is_remote(path):
        return read_state(path.stat())
    return _of_object(_existing(str(address_of(path))))


class OpenFile(ABC):
    """An open archive, as bytes.

    Attributes:
        state: State of what was opened.
        first_bytes: Bytes of a member that are read when it is opened.
        more_bytes: Bytes that are read at a time after them.
    """

    state: ArchiveState
    first_bytes: int
    more_bytes: int

    @abstractmethod
    def read(self, count: int, position: int) -> bytes:
        """Return up to `count` bytes from `position` on, as far as the archive goes."""

    def read_many(self, count: int, positions: Sequence[int]) -> list[bytes]:
        """Return `count` bytes from each of many positions, which a store sends at once."""
        return [self.read(count, position) for position in positions]


class LocalFile(OpenFile):
    """A descriptor, which is closed with the last reference to this object."""

    # Enough for the header of a recording; then for a second of 16-bit samples at a time.
    first_bytes = 2**15
    more_bytes = 2**16

    def __init__(self, path: AnyPath, state: ArchiveState | None = None) -> None:
        """Open a file; `state` is that of the object that it is a copy of."""
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | open_flags("O_CLOEXEC"))
        self.state = state or read_state(os.fstat(self.descriptor))

    def read(self, count: int, position: int) -> bytes:
        return read_at(self.descriptor, count, position)

    def __del__(self) -> None:
        # An interpreter that ends may have taken `os` apart.
        if hasattr(self, "descriptor"):
            with suppress(Exception):
                os.close(self.descriptor)


class CopiedFile(LocalFile):
    """The local copy of an object, known by the object's state."""

    def __init__(self, copy: Path, state: ArchiveState) -> None:
        super().__init__(copy, state)
        self._noted = time.monotonic()

    def read(self, count: int, position: int) -> bytes:
        now = time.monotonic()
        if now - self._noted > _NOTED_S:
            self._noted = now
            mark_used(Path(self.path))
        return super().read(count, position)


class RemoteFile(OpenFile):
    """An object, of which each part is requested when it is needed."""

    # A minute of speech in FLAC: one request costs more than a megabyte takes.
    first_bytes = 2**20
    more_bytes = 2**20

    def __init__(self, address: str, state: ObjectState) -> None:
        self._address = address
        self.state = _of_object(state)

    def read(self, count: int, position: int) -> bytes:
        count = max(0, min(count, self.state.size - position))
        return read_object(self._address, position, count)

    def read_many(self, count: int, positions: Sequence[int]) -> list[bytes]:
        ranges = []
        for position in positions:
            size = max(0, min(count, self.state.size - position))
            ranges.append(Range(self._address, position, size))
        return read_objects(ranges)


def open_ranges(path: Path) -> OpenFile:
    """Open an archive: of a store its local copy, where a folder for such is set, else by ranges.

    Raises:
        OSError: there is none, or it cannot be opened.
        AsdfError: its store does not answer.
    """
    address = address_of(path)
    if address is None:
        return LocalFile(path)
    state = _existing(address)
    if copies_folder() is not None:
        copy = local_copy(address, state)
        if copy is not None:
            # Another process may have removed it for want of room.
            with suppress(FileNotFoundError):
                return CopiedFile(copy, _of_object(state))
    return RemoteFile(address, state)


def absolute(path: AnyPath) -> Path:
    """Return the path that archives are known by; links are not resolved."""
    return as_path(absolute_name(path))


def absolute_name(path: AnyPath) -> str:
    """Return the same as text, for each recording that is read."""
    # A link's own name is the corpus's.
    return address_of(path) or os.path.abspath(path)  # noqa: PTH100


def _existing(address: str) -> ObjectState:
    state = object_state(address, refresh=True)
    if state is None:
        raise FileNotFoundError(2, "No such object", address)
    return state


def _of_object(state: ObjectState) -> ArchiveState:
    return ArchiveState(0, state.size, state.version)
