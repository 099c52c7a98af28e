"""The bytes of a recording that a decoder has open, looked at without moving its position.

Invariant: a decoder that reads on afterwards sees no difference. No second handle is opened, which
on a file server would cost another request per recording.
"""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO

from asdf.runs.systems import read_at


class FileBytes:
    """Reads at any position of an open file.

    Attributes:
        size: Bytes in all.
    """

    def __init__(self, opened: int | BinaryIO) -> None:
        """Take what `open_source` returned."""
        self._opened = opened
        self._head = b""
        if isinstance(opened, int):
            self.size = os.fstat(opened).st_size
            return
        position = opened.tell()
        self.size = opened.seek(0, os.SEEK_END)
        opened.seek(position)

    def hold(self, count: int) -> None:
        """Read the first `count` bytes at once, for reads of them that follow."""
        self._head = self._read(0, min(count, self.size))

    def read(self, position: int, count: int) -> bytes:
        """Return up to `count` bytes from `position` on."""
        if position + count <= len(self._head):
            return self._head[position : position + count]
        return self._read(position, count)

    def _read(self, position: int, count: int) -> bytes:
        if isinstance(self._opened, int):
            return read_at(self._opened, count, position)
        before = self._opened.tell()
        self._opened.seek(position)
        content = self._opened.read(count)
        self._opened.seek(before)
        return content


class FirstBytes(io.RawIOBase):
    """The first `size` bytes of an open file, as a file of its own."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        """Take an open file, which is closed with this one."""
        self._file = file
        self._size = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            return self._file.seek(self._size + offset)
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(max(0, min(len(buffer), self._size - self.tell())))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()
