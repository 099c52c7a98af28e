"""Open files of archives, read by offset, and windows on them.

Invariant: an archive is identified by its state. A descriptor is closed when its last reader is
done, and not before: each reader holds the object that owns it. The file position is neither used
nor moved, so threads and forked processes share a descriptor.
"""

from __future__ import annotations

import errno
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from asdf.runs.systems import open_flags, read_at
from asdf.text import AnyPath

BLOCK = 512
"""Size of a block of a tar, in bytes."""


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


def absolute(path: AnyPath) -> Path:
    """Return the path that identifies an archive; links are not resolved."""
    return Path(absolute_name(path))


def absolute_name(path: AnyPath) -> str:
    """Return the same path as text, for each recording that is read."""
    # A link's own name is the one used by the corpus.
    return os.path.abspath(path)  # noqa: PTH100


class OpenFile:
    """A descriptor, which is closed with the last reference to this object.

    Attributes:
        state: State of the archive when it was opened.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | open_flags("O_CLOEXEC"))
        self.state = read_state(os.fstat(self.descriptor))

    def read(self, count: int, position: int) -> bytes:
        """Return up to `count` bytes from `position` on, fewer at the end of the archive."""
        return read_at(self.descriptor, count, position)

    def __del__(self) -> None:
        # During interpreter shutdown, `os` may be unusable.
        if hasattr(self, "descriptor"):
            with suppress(Exception):
                os.close(self.descriptor)


class Window(io.RawIOBase):
    """The `size` bytes of an open file from `offset` on, as a file."""

    def __init__(self, file: OpenFile, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        position = bases[whence] + offset
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = position
        return position

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        wanted = max(0, min(len(buffer), self._size - self._position))
        data = self._file.read(wanted, self._offset + self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
