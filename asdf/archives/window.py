"""A part of an open file as a file of its own.

Invariant: the file's own position is neither used nor moved, so that any number of windows on one
descriptor, in threads and in forked processes, do not get in each other's way.
"""

from __future__ import annotations

import errno
import io
import os

from asdf.archives.headers import BLOCK
from asdf.runs.systems import read_at

# Enough for the header of a recording; then for a second of 16-bit samples at a time.
_FIRST_BYTES = 2**15
_MORE_BYTES = 2**16


class Window(io.RawIOBase):
    """`size` bytes from `offset` on.

    Attributes:
        before: Block of a tar before `offset`; read with the first bytes, it costs nothing.
    """

    def __init__(self, owner: object, descriptor: int, offset: int, size: int) -> None:
        """Open a part of `descriptor`, which `owner` keeps open as long as it lives."""
        self._owner = owner
        self._descriptor = descriptor
        self._offset = offset
        self._size = size
        data = self._fetch(-BLOCK, BLOCK + min(size, _FIRST_BYTES))
        self.before = bytes(data[:BLOCK])
        self._chunk = data[BLOCK:]
        self._chunk_start = 0
        self._position = 0

    def _fetch(self, start: int, size: int) -> memoryview:
        """Read `size` bytes from `start` on, or fewer where the file ends."""
        data = b""
        while len(data) < size:
            position = self._offset + start + len(data)
            part = read_at(self._descriptor, size - len(data), position)
            if not part:
                break
            # Nearly always the first part is all, and need not be copied.
            data = data + part if data else part
        return memoryview(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        position = bases[whence] + offset
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = position
        return position

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """Fill `buffer` as far as the member goes: libsndfile takes a short read for the end."""
        wanted = max(0, min(len(buffer), self._size - self._position))
        done = 0
        while done < wanted:
            inside = self._position - self._chunk_start
            if not 0 <= inside < len(self._chunk):
                size = min(self._size - self._position, max(wanted - done, _MORE_BYTES))
                self._chunk = self._fetch(self._position, size)
                self._chunk_start = self._position
                inside = 0
            part = self._chunk[inside : inside + wanted - done]
            if not part:
                break
            buffer[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done
