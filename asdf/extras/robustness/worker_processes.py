"""Processes that compute tasks of a list, with one thread each.

Invariant: results come in the order of the tasks, and are the same for any number of processes:
every task uses one thread, since sums over several threads may differ in the last bits. No process
outlives this one, however it ends.
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

import torch

_CHUNKS_AHEAD = 16

# The object shared by a process's tasks, which would otherwise be sent with each task.
_SHARED: list[Any] = []

Compute = Callable[[Callable[[Any, Any], Any], Sequence[Any]], Iterator[Any]]
"""Yields `function(task, shared)` for each task, in order."""


@contextmanager
def worker_processes(workers: int, shared: Any, chunk: int = 4) -> Iterator[Compute]:
    """Hold processes while the block runs; their functions are those of a module.

    Args:
        workers: Number of processes; 0 to compute in this one.
        shared: Object that every task needs, copied to each process by pickle.
        chunk: Number of tasks that are sent to a process together.
    """
    if not workers:
        yield lambda function, tasks: (_compute_here(function, task, shared) for task in tasks)
        return
    # Spawned, since a forked process would inherit the threads of this one.
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_process, (shared,)) as pool:

        def compute(function: Callable[[Any, Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
            # A few at a time, so that stopping does not have to wait for many.
            share = workers * chunk * _CHUNKS_AHEAD
            for start in range(0, len(tasks), share):
                calls = [(function, task) for task in tasks[start : start + share]]
                yield from pool.map(_compute_there, calls, chunksize=chunk)

        try:
            yield compute
        finally:
            # After an error, some are left.
            pool.shutdown(cancel_futures=True)


def _compute_here(function: Callable[[Any, Any], Any], task: Any, shared: Any) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return function(task, shared)
    finally:
        torch.set_num_threads(before)


def _prepare_process(shared: Any) -> None:
    torch.set_num_threads(1)
    _SHARED[:] = [shared]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended, for example after kill -9."""
    parent = parent_process()
    assert parent is not None  # this is a spawned process
    wait([parent.sentinel])
    # Nobody reads results any more, and tasks sent ahead may take hours.
    os._exit(1)


def _compute_there(call: tuple[Callable[[Any, Any], Any], Any]) -> Any:
    function, task = call
    return function(task, _SHARED[0])
