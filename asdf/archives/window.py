"""A part of an open file as a file of its own.

Invariant: the file's own place is neither used nor moved, so that any number of windows on one descriptor, in threads
and in forked processes, do not get in each other's way.
"""

from __future__ import annotations

import io
import os

from asdf.archives.headers import BLOCK

# Enough for the header of a recording, then for a second of 16-bit samples at a time.
_FIRST_BYTES = 2**15
_MORE_BYTES = 2**16


class Window(io.RawIOBase):
    """`size` bytes from `offset` on.

    Attributes:
        before: the block of a tar before `offset`. It is read with the first bytes, so it costs nothing.
    """

    def __init__(self, owner: object, descriptor: int, offset: int, size: int) -> None:
        """`owner`: keeps the descriptor open as long as it lives."""
        self._owner, self._descriptor, self._offset, self._size = owner, descriptor, offset, size
        data = self._fetch(-BLOCK, BLOCK + min(size, _FIRST_BYTES))
        self.before = bytes(data[:BLOCK])
        self._chunk, self._chunk_start, self._at = data[BLOCK:], 0, 0

    def _fetch(self, start: int, size: int) -> memoryview:
        data = b""
        while len(data) < size:
            part = os.pread(self._descriptor, size - len(data), self._offset + start + len(data))
            if not part:
                break
            data = data + part if data else part
        return memoryview(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(22, "Invalid argument")
        self._at = base + offset
        return self._at

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """Fill `buffer` as far as the member goes: libsndfile takes a short read for the end."""
        wanted, done = max(0, min(len(buffer), self._size - self._at)), 0
        while done < wanted:
            inside = self._at - self._chunk_start
            if not 0 <= inside < len(self._chunk):
                size = min(self._size - self._at, max(wanted - done, _MORE_BYTES))
                self._chunk = self._fetch(self._at, size)
                self._chunk_start, inside = self._at, 0
            part = self._chunk[inside : inside + wanted - done]
            if not part:
                break
            buffer[done : done + len(part)] = part
            done += len(part)
            self._at += len(part)
        return done
