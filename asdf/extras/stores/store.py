"""The file of an archive, read by offset.

Invariant: readers of members request bytes by offset (`pread`), so that threads and forked
processes can share a descriptor. An archive is identified by its state.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from asdf.runs.systems import open_flags, read_at
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
