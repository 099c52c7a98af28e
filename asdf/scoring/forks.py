"""Forks of the process between the batches that its threads compute, never within one.

Invariant: while the process forks, none of its threads computes a network. torch and the libraries
below it have locks, and a forked process has those that another thread held, without that thread:
it would wait for them without end. A batch that is to begin meanwhile waits for the fork.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakSet

from asdf.runs.systems import call_around_forks

# Whatever a thread is at: a fork that waited without end would be no better.
_PATIENCE_S = 60.0

_locks: WeakSet[Any] = WeakSet()
# For changes of `_locks`. While a process forks it is the forking thread's.
_registry = threading.RLock()
# Of the thread that forks, in the order in which it took them.
_forking = threading.local()


def new_computing_lock() -> Any:
    """Return a lock for a network's computing, which a fork waits for.

    It is one that a thread may take again, as a network may fork while it computes.
    """
    lock = threading.RLock()
    with _registry:
        _locks.add(lock)
    return lock


def _take_locks() -> None:
    # Two threads that fork at once do so one after the other.
    _registry.acquire()
    _forking.taken = [lock for lock in _locks if lock.acquire(timeout=_PATIENCE_S)]


def _release_locks() -> None:
    for lock in _forking.taken:
        lock.release()
    _forking.taken = []
    _registry.release()


call_around_forks(_take_locks, _release_locks)
