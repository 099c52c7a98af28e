"""Threads that nobody has to wait for.

Invariant: the process can end whatever its threads do. A read from a file server that has gone does
not come back, and an executor of the standard library would wait for its thread at the end of the
process.
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
    """Threads that call functions in the order in which they are asked to."""

    def __init__(self, count: int) -> None:
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._closed = False
        self.count = count
        for _ in range(count):
            threading.Thread(target=self._work, daemon=True).start()

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """`function(*arguments)`, called when a thread is free."""
        future: Future[Result] = Future()
        self._asked.put((future, function, arguments))
        return future

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        stop: StopRequest | None = None,
    ) -> Iterator[Result]:
        """`function` of each of `items`, in order; ends early when a stop is asked for, whatever the threads do."""
        begun: deque[Future[Result]] = deque()
        rest = iter(items)
        # One that was not asked for is false, as is none.
        while not stop:
            for item in islice(rest, 4 * self.count - len(begun)):
                begun.append(self.submit(function, item))
            if not begun:
                return
            if wait([begun[0]], timeout=_POLL_S).done:
                yield begun.popleft().result()

    def close(self) -> None:
        """Begin nothing more; what a thread is at is not waited for."""
        self._closed = True
        for _ in range(self.count):
            self._asked.put(None)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            self._call(*asked)
            # Arguments may be large: they must not stay until the next ones come.
            del asked

    def _call(
        self, future: Future[Result], function: Callable[..., Result], arguments: tuple[Any, ...]
    ) -> None:
        if self._closed:
            future.cancel()
            return
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)


@contextmanager
def threads(count: int) -> Iterator[Threads]:
    """`count` threads that are let go of at the end of the block."""
    pool = Threads(count)
    try:
        yield pool
    finally:
        pool.close()
