"""Threads that never block the end of the process.

Invariant: the process can end whatever its threads do. A read from a dead file server does not
return, and an executor of the standard library would wait for its thread at the end of the process.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from asdf.distributed.stopping import StopRequest

Item = TypeVar("Item")
Result = TypeVar("Result")

_POLL_S = 0.2


class Threads:
    """Threads that call functions in the order of submission."""

    def __init__(self, count: int) -> None:
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._closed = False
        self.count = count
        for _ in range(count):
            threading.Thread(target=self._work, daemon=True).start()

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Call `function(*arguments)` when a thread is free."""
        future: Future[Result] = Future()
        self._tasks.put((future, function, arguments))
        return future

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        stop: StopRequest | None = None,
    ) -> Iterator[Result]:
        """Yield `function` of each of `items`, in order.

        The iteration ends early if a stop is requested, whatever the threads do.
        """
        running: deque[Future[Result]] = deque()
        rest = iter(items)
        # A stop that was not requested is false, as is None.
        while not stop:
            for item in islice(rest, 4 * self.count - len(running)):
                running.append(self.submit(function, item))
            if not running:
                return
            if wait([running[0]], timeout=_POLL_S).done:
                yield running.popleft().result()

    def close(self) -> None:
        """Start no further calls; running ones are not waited for."""
        self._closed = True
        for _ in range(self.count):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, function, arguments = task
            if self._closed:
                future.cancel()
            # From here on it cannot be cancelled, since setting a result would fail and end the
            # thread.
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*arguments))
                except BaseException as error:
                    future.set_exception(error)
            # Arguments may be large, so release them before waiting for the next ones.
            del task, future, function, arguments


@contextmanager
def threads(count: int) -> Iterator[Threads]:
    """Start `count` threads, which are released at the end of the block."""
    pool = Threads(count)
    try:
        yield pool
    finally:
        pool.close()
