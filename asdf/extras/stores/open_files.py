"""The open files of archives, read by offset, limited in number, and windows on them.

Invariant: an archive is identified by its state. A descriptor is closed when its last reader is
done, and not before: each reader holds the object that owns it. Threads may therefore read on while
others open more archives. A forked process has its own copies of the descriptors. The file position
is neither used nor moved, so windows on one descriptor do not interfere, in threads or in forked
processes.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from asdf.runs.systems import open_flags, raise_open_files_limit, read_at
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


class OpenFile:
    """A descriptor, which is closed with the last reference to this object.

    Attributes:
        state: State of the archive when it was opened.
        whole_bytes: Maximum size of a member that is read completely when it is opened.
        first_bytes: Number of bytes of a larger member that are read when it is opened.
        more_bytes: Number of bytes per read after them.
    """

    # Most recordings of a corpus are read as a whole. Of a longer one, the first read is enough for
    # its header, and each further read for a second of 16-bit samples.
    whole_bytes = 2**18
    first_bytes = 2**15
    more_bytes = 2**16

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


def absolute(path: AnyPath) -> Path:
    """Return the path that identifies an archive; links are not resolved."""
    return Path(absolute_name(path))


def absolute_name(path: AnyPath) -> str:
    """Return the same path as text, for each recording that is read."""
    # A link's own name is the one used by the corpus.
    return os.path.abspath(path)  # noqa: PTH100


BLOCK = 512
"""Size of a block of a tar, in bytes."""

# More would gain little, since opening a file is much faster than decoding a recording.
_MOST = 256
# The rest is for sockets, pipes of workers, libraries and the files of the run.
_SHARE = 4
# Some systems allow a billion, which old programs iterate over at startup.
_SOFT_LIMIT = 65_536


class OpenFiles:
    """Open files by key; the least recently used are released first."""

    def __init__(self) -> None:
        self._files: OrderedDict[object, OpenFile] = OrderedDict()
        self._lock = threading.Lock()
        self._limit = 0

    def get(self, key: object, open_anew: Callable[[], OpenFile]) -> OpenFile:
        """Return the file for a key, calling `open_anew` if it is not open."""
        with self._lock:
            if not self._limit:
                allowed = raise_open_files_limit(_SOFT_LIMIT)
                self._limit = _MOST if allowed is None else max(1, min(_MOST, allowed // _SHARE))
            file = self._files.get(key)
        # Outside the lock, since opening a file may call `forget`.
        opened = file or open_anew()
        with self._lock:
            file = self._files.setdefault(key, opened)
            self._files.move_to_end(key)
            while len(self._files) > self._limit:
                self._files.popitem(last=False)
            return file

    def forget(self, key: object) -> None:
        """Release the file for a key."""
        with self._lock:
            self._files.pop(key, None)

    def replace_lock(self) -> None:
        """Create a new lock in a forked process: the thread that may hold the old one is gone."""
        self._lock = threading.Lock()


class Window(io.RawIOBase):
    """A window of `size` bytes from `offset` on.

    Attributes:
        before: Block of a tar before `offset`, read together with the first bytes.
    """

    def __init__(self, file: OpenFile, offset: int, size: int, before: int = BLOCK) -> None:
        """Open a window on `file`, which stays open as long as this object."""
        self._file = file
        self._offset = offset
        self._size = size
        first = size if size <= file.whole_bytes else file.first_bytes
        data = self._fetch(-before, before + first)
        self.before = bytes(data[:before])
        self._chunk = data[before:]
        self._chunk_start = 0
        self._position = 0

    def _fetch(self, start: int, size: int) -> memoryview:
        """Read `size` bytes from `start` on, or fewer at the end of the file."""
        data = b""
        while len(data) < size:
            position = self._offset + start + len(data)
            part = self._file.read(size - len(data), position)
            if not part:
                break
            # The first read usually returns everything, which need not be copied.
            data = data + part if data else part
        return memoryview(data)

    @property
    def whole(self) -> memoryview | None:
        """The content, if the first read returned all of it."""
        return self._chunk if len(self._chunk) == self._size else None

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
        """Fill `buffer` as far as possible, since libsndfile takes a short read for the end."""
        wanted = max(0, min(len(buffer), self._size - self._position))
        done = 0
        while done < wanted:
            inside = self._position - self._chunk_start
            if not 0 <= inside < len(self._chunk):
                size = min(self._size - self._position, max(wanted - done, self._file.more_bytes))
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
