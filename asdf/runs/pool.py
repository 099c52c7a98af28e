"""A pool of processes that compute the tasks of a list.

Invariant: results come in the order of the tasks, and no process outlives this one, however it
ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any

_CHUNK = 4
_CHUNKS_AHEAD = 16
# What a process's tasks share, which would otherwise be sent with each task.
_SHARED: list[Any] = []

Compute = Callable[[Callable[..., Any], Sequence[Any]], Iterator[Any]]
"""Yields `function(task, *shared)` for each task, in order."""


@contextmanager
def worker_pool(workers: int, *shared: Any) -> Iterator[Compute]:
    """Hold processes while the block runs; their functions are those of a module.

    Args:
        workers: Number of processes; 0 to compute in this one.
        shared: Objects that every task needs, copied to each process by pickle.
    """
    if workers < 1:
        yield lambda function, tasks: (function(task, *shared) for task in tasks)
        return
    # Spawned, since a forked process would inherit the threads of this one.
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare, (shared,)) as pool:

        def compute(function: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[Any]:
            # A few at a time, so that stopping does not have to wait for many.
            share = workers * _CHUNK * _CHUNKS_AHEAD
            for start in range(0, len(tasks), share):
                calls = [(function, task) for task in tasks[start : start + share]]
                yield from pool.map(_call, calls, chunksize=_CHUNK)

        try:
            yield compute
        finally:
            # After an error, some are left.
            pool.shutdown(cancel_futures=True)


def _prepare(shared: Sequence[Any]) -> None:
    """Keep what tasks share, and end this process when its parent has ended, even by kill -9."""
    _SHARED[:] = shared
    parent = parent_process()
    assert parent is not None  # this is a spawned process

    def watch() -> None:
        wait([parent.sentinel])
        # Nobody reads results any more, and tasks sent ahead may take hours.
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _call(call: tuple[Callable[..., Any], Any]) -> Any:
    function, task = call
    return function(task, *_SHARED)
