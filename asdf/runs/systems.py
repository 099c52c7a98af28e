"""What Linux, macOS and Windows have or lack, in one file: locks, limits, forks, flags, signals.

Invariant: modules and functions of the standard library that one of these systems lacks are named
here alone, or looked for before they are used. So ASDF is imported and scores on a CPU on each of
them; a system without locks is treated like a file system without locks.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
# The kernel counts in kilobytes, that of macOS in bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024

_reading = threading.Lock()


def lock(file: int | IO[str] | IO[bytes], wait: bool) -> None:
    """Lock an open file for this process; the lock ends with it, however it ends.

    Args:
        wait: True to wait for another process that holds the lock.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is False.
        OSError: with one of `NO_LOCKS`, the system or the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(file: int | IO[str] | IO[bytes]) -> None:
    """Give the lock of an open file back.

    Raises:
        OSError: the file system has no locks.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)


def can_lock(file: int | IO[str] | IO[bytes]) -> bool:
    """Lock an open file without waiting; return False where there are no locks.

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


@dataclass(frozen=True)
class OpenFilesLimit:
    """How many files this process may have open, and how far it may raise that; None: no limit."""

    soft: int | None
    hard: int | None


def open_files_limit() -> OpenFilesLimit:
    """Return the limits of this process; a system that states none counts as one without."""
    if resource is None:
        return OpenFilesLimit(None, None)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in limits)
    return OpenFilesLimit(soft, hard)


def raise_open_files_limit(wanted: int) -> int | None:
    """Raise the soft limit to `wanted`, or as far as is allowed; return it; None: no limit."""
    limit = open_files_limit()
    if limit.hard is not None:
        wanted = min(limit.hard, wanted)
    if resource is None or limit.soft is None or limit.soft >= wanted:
        return limit.soft
    hard = resource.RLIM_INFINITY if limit.hard is None else limit.hard
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return limit.soft


def peak_memory_bytes() -> int | None:
    """Return the peak of this process's resident memory; None where the system has no count."""
    if resource is None:
        return None
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * _RSS_UNIT


def open_flags(*names: str) -> int:
    """Return flags of `os.open` together, without those that the system lacks.

    O_BINARY, without which Windows changes line ends, is always among them.
    """
    flags = getattr(os, "O_BINARY", 0)
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def _seek_and_read(descriptor: int, count: int, position: int) -> bytes:
    # The position is moved, so one thread at a time.
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
    """Let `function` be called in each process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def call_around_forks(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Let `before` be called before this process forks, and `after` in both processes then."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


def existing_signals(*names: str) -> tuple[signal.Signals, ...]:
    """Return the signals of these names that the system has."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def is_gone(process: int) -> bool:
    """Return whether no process has this number; False where that cannot be seen.

    Raises:
        OSError, OverflowError: the process is another user's, or there is no such number.
    """
    if os.name == "nt":
        # There the signal 0 does not ask: it is Ctrl-C.
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def end_process_group(leader: int) -> None:
    """Kill a process and its group; where there are no groups, the process alone."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(leader, signal.SIGKILL)
        else:
            os.kill(leader, signal.SIGTERM)
