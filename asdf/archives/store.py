"""Sources of archives: a local file, an object of a store, or a local copy of one.

Invariant: readers of members request bytes by offset, independent of their source. An archive is
identified by its state in its store: a changed object is another archive, even if an older copy
lies on the disk. Local files are read only by `pread`.
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

# Seconds between two marks of one process that a copy is in use.
_NOTED_S = 5.0


class ArchiveState(NamedTuple):
    """The state of an archive, which changes when it is replaced or written to.

    Attributes:
        inode: Inode number of the file; 0 for an object.
        changed_ns: Modification time in ns; for an object, the digest of its version.
    """

    inode: int
    size: int
    changed_ns: int


def read_state(status: os.stat_result) -> ArchiveState:
    """Return the archive state for the result of a stat."""
    return ArchiveState(status.st_ino, status.st_size, status.st_mtime_ns)


def state_of(path: Path) -> ArchiveState:
    """Return the state of the archive at `path`.

    Raises:
        OSError: it does not exist, or its state cannot be read.
        AsdfError: its store does not answer.
    """
    if not is_remote(path):
        return read_state(path.stat())
    return _of_object(_existing(str(address_of(path))))


class OpenFile(ABC):
    """An open archive, read as bytes.

    Attributes:
        state: State of the archive when it was opened.
        whole_bytes: Maximum size of a member that is read completely when it is opened.
        first_bytes: Number of bytes of a larger member that are read when it is opened.
        more_bytes: Number of bytes per read after them.
    """

    state: ArchiveState
    whole_bytes: int
    first_bytes: int
    more_bytes: int

    @abstractmethod
    def read(self, count: int, position: int) -> bytes:
        """Return up to `count` bytes from `position` on, fewer at the end of the archive."""

    def read_many(self, count: int, positions: Sequence[int]) -> list[bytes]:
        """Return `count` bytes from each of many positions, which a store sends concurrently."""
        return [self.read(count, position) for position in positions]


class LocalFile(OpenFile):
    """A descriptor, which is closed with the last reference to this object."""

    # Most recordings of a corpus are read as a whole. Of a longer one, the first read is enough for
    # its header, and each further read for a second of 16-bit samples.
    whole_bytes = 2**18
    first_bytes = 2**15
    more_bytes = 2**16

    def __init__(self, path: AnyPath, state: ArchiveState | None = None) -> None:
        """Open a file; for the copy of an object, `state` is the object's."""
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | open_flags("O_CLOEXEC"))
        self.state = state or read_state(os.fstat(self.descriptor))

    def read(self, count: int, position: int) -> bytes:
        return read_at(self.descriptor, count, position)

    def __del__(self) -> None:
        # During interpreter shutdown, `os` may be unusable.
        if hasattr(self, "descriptor"):
            with suppress(Exception):
                os.close(self.descriptor)


class CopiedFile(LocalFile):
    """The local copy of an object, identified by the object's state."""

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
    """An object, each range of which is requested on demand."""

    # A minute of speech in FLAC, since a request takes longer than transferring a megabyte.
    whole_bytes = 2**20
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
    """Open an archive: for an object its local copy, if a folder for copies is set, or ranges.

    Raises:
        OSError: it does not exist, or cannot be opened.
        AsdfError: its store does not answer.
    """
    address = address_of(path)
    if address is None:
        return LocalFile(path)
    state = _existing(address)
    if copies_folder() is not None:
        copy = local_copy(address, state)
        if copy is not None:
            # Another process may have removed it to free space.
            with suppress(FileNotFoundError):
                return CopiedFile(copy, _of_object(state))
    return RemoteFile(address, state)


def absolute(path: AnyPath) -> Path:
    """Return the path that identifies an archive; links are not resolved."""
    return as_path(absolute_name(path))


def absolute_name(path: AnyPath) -> str:
    """Return the same path as text, for each recording that is read."""
    # A link's own name is the one used by the corpus.
    return address_of(path) or os.path.abspath(path)  # noqa: PTH100


def _existing(address: str) -> ObjectState:
    state = object_state(address, refresh=True)
    if state is None:
        raise FileNotFoundError(2, "No such object", address)
    return state


def _of_object(state: ObjectState) -> ArchiveState:
    return ArchiveState(0, state.size, state.version)
