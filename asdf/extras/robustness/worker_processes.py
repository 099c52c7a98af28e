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
from typing import Any, Generic, TypeVar

import torch

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

_CHUNKS_AHEAD = 16

# The object shared by a process's tasks, which would otherwise be sent with each task.
_SHARED: list[Any] = []


class WorkerProcesses(Generic[Shared]):
    """Computes tasks in `workers` processes, or in this one if there are none.

    Args:
        workers: Number of processes; 0 to compute in this one.
        shared: Object that every task needs, copied to each process by pickle.
        chunk: Number of tasks that are sent to a process together.
    """

    def __init__(self, workers: int, shared: Shared, chunk: int = 4) -> None:
        self._workers = workers
        self._shared = shared
        self._chunk = chunk
        self._pool: ProcessPoolExecutor | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the processes while the block runs."""
        if not self._workers:
            yield
            return
        # Spawned, since a forked process would inherit the threads of this one.
        with ProcessPoolExecutor(
            self._workers,
            mp_context=get_context("spawn"),
            initializer=_prepare_process,
            initargs=(self._shared,),
        ) as pool:
            self._pool = pool
            try:
                yield
            finally:
                # After an error, some are left.
                pool.shutdown(cancel_futures=True)
                self._pool = None

    def compute(
        self, function: Callable[[Task, Shared], Result], tasks: Sequence[Task]
    ) -> Iterator[Result]:
        """Yield `function(task, shared)` for each task, in order.

        Args:
            function: Function defined in a module, which other processes can import.
        """
        if self._pool is None:
            for task in tasks:
                with _one_thread():
                    result = function(task, self._shared)
                yield result
            return
        # A few at a time, so that stopping does not have to wait for many.
        share = self._workers * self._chunk * _CHUNKS_AHEAD
        for start in range(0, len(tasks), share):
            calls = [(function, task) for task in tasks[start : start + share]]
            yield from self._pool.map(_compute_there, calls, chunksize=self._chunk)


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


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
