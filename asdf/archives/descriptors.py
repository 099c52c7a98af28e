"""The open files of archives: a bounded number of them, of those that were used last.

Invariant: a descriptor is closed when nobody reads from it any more, and not before: each reader
holds the object that owns it. So threads may read on while others open more archives. A forked
process has the same descriptors, and closing one there closes it there alone.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from asdf.runs.systems import open_flags, raise_open_files_limit
from asdf.text import AnyPath

# More would gain little: opening a file again costs far less than decoding a recording.
_MOST = 256
# The rest is for sockets, pipes of workers, libraries and the files of the run.
_SHARE = 4
# What some systems allow is a billion, and old programs go through all of them when they start.
_SOFT_LIMIT = 65_536


class OpenFile:
    """A descriptor, which is closed with the last reference to this object."""

    def __init__(self, path: AnyPath) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | open_flags("O_CLOEXEC"))

    def __del__(self) -> None:
        # An interpreter that ends may have taken `os` apart.
        if hasattr(self, "descriptor"):
            with suppress(Exception):
                os.close(self.descriptor)


class OpenFiles:
    """Open files by key; those that were not used for longest are let go of."""

    def __init__(self) -> None:
        self._files: OrderedDict[object, OpenFile] = OrderedDict()
        self._lock = threading.Lock()
        self._limit = 0

    def get(self, key: object, open_anew: Callable[[], OpenFile]) -> OpenFile:
        """Return the file of a key; `open_anew` is called where it is not open."""
        with self._lock:
            if not self._limit:
                allowed = raise_open_files_limit(_SOFT_LIMIT)
                self._limit = _MOST if allowed is None else max(1, min(_MOST, allowed // _SHARE))
            file = self._files.get(key)
        # Without the lock: what opens a file may find that it has to forget it.
        opened = file or open_anew()
        with self._lock:
            file = self._files.setdefault(key, opened)
            self._files.move_to_end(key)
            while len(self._files) > self._limit:
                self._files.popitem(last=False)
            return file

    def forget(self, key: object) -> None:
        """Let go of the file of a key."""
        with self._lock:
            self._files.pop(key, None)

    def replace_lock(self) -> None:
        """Make a new lock in a forked process, which lacks the thread that may hold the old one."""
        self._lock = threading.Lock()
