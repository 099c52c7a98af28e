"""Differences between Linux, macOS and Windows: locks, forks, flags, signals.

Invariant: functions of the standard library that one of these systems lacks are named only here, or
are checked for before use. ASDF can therefore be imported and score on a CPU on each of them. A
system without locks is treated like a file system without locks.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import IO

fcntl: ModuleType | None
resource: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    import resource
except ImportError:  # Windows
    resource = None

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
"""Errors of file systems, and of systems, without locks."""
# The unit of ru_maxrss is kilobytes, on macOS bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024

_reading = threading.Lock()


def lock(file: int | IO[str] | IO[bytes], wait: bool) -> None:
    """Lock an open file for this process; the lock always ends with the process.

    Args:
        wait: Whether to wait for another process that holds the lock.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is False.
        OSError: with an errno in `NO_LOCKS`, the system or file system does not support locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(file: int | IO[str] | IO[bytes]) -> None:
    """Release the lock of an open file.

    Raises:
        OSError: the file system does not support locks.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)


def can_lock(file: int | IO[str] | IO[bytes]) -> bool:
    """Lock an open file without waiting; return False if locks are not supported.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    try:
        lock(file, wait=False)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return False
        raise
    return True


def peak_memory_bytes() -> int | None:
    """Return this process's peak resident memory in bytes; None if the system has no count."""
    if resource is None:
        return None
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * _RSS_UNIT


def open_flags(*names: str) -> int:
    """Return the union of flags of `os.open`, ignoring those that the system lacks.

    O_BINARY is always included, since without it Windows changes line ends.
    """
    flags = getattr(os, "O_BINARY", 0)
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def _seek_and_read(descriptor: int, count: int, position: int) -> bytes:
    # Reading moves the file position, so only one thread reads at a time.
    with _reading:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, position, os.SEEK_SET)
            return os.read(descriptor, count)
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


# Windows has no `pread`.
read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
"""Reads up to `count` bytes of a descriptor from `position` on, and leaves its position.

Raises an OSError where the file cannot be read.
"""


def call_in_forked_processes(function: Callable[[], None]) -> None:
    """Call `function` in each process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def call_around_forks(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call `before` before this process forks, and `after` in both processes after it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


def existing_signals(*names: str) -> tuple[signal.Signals, ...]:
    """Return the signals of these names that the system supports."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))
