"""Forks of the process between the batches that its threads compute, never within one.

Invariant: while the process forks, none of its threads computes a network. torch and the libraries
below it use locks. A forked process inherits a lock that another thread held, but not that thread,
and would wait forever. A batch that is about to begin waits until the fork is done.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakSet

from asdf.runs.systems import call_around_forks

# A fork that waited forever for a thread would be no better.
_PATIENCE_S = 60.0

# Weak, so that a lock disappears with its network.
_locks: WeakSet[Any] = WeakSet()
# Guards `_locks`. While a process forks, the forking thread holds it.
_registry = threading.RLock()
# Locks of the thread that forks, in the order in which it acquired them.
_forking = threading.local()


def new_computing_lock() -> Any:
    """Return a lock that a network holds while it computes, and that a fork waits for.

    It is reentrant, since a network may fork while it computes.
    """
    lock = threading.RLock()
    with _registry:
        _locks.add(lock)
    return lock


def _take_locks() -> None:
    # Threads that fork at the same time do so one after the other.
    _registry.acquire()
    _forking.taken = [lock for lock in _locks if lock.acquire(timeout=_PATIENCE_S)]


def _release_locks() -> None:
    for lock in _forking.taken:
        lock.release()
    _forking.taken = []
    _registry.release()


call_around_forks(_take_locks, _release_locks)
