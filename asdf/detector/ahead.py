"""Recordings read by threads while the network computes.

Invariant: batches come in their order, and no more than a few of them are in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Decoders let other threads run, so that threads do as well as processes, and need no copies.
_READERS = 4
_BATCHES = 3


@contextmanager
def pool_of_readers() -> Iterator[ThreadPoolExecutor]:
    """Threads that are gone at the end, without the work that they have not begun."""
    pool = ThreadPoolExecutor(_READERS)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def read_ahead(
    pool: ThreadPoolExecutor, read: Callable[[Item], Result], batches: Iterable[list[Item]]
) -> Iterator[tuple[list[Item], list[Result]]]:
    """Yield each batch with what `read` gives for its items."""
    begun: deque[tuple[list[Item], list[Future[Result]]]] = deque()
    for batch in batches:
        begun.append((batch, [pool.submit(read, item) for item in batch]))
        if len(begun) >= _BATCHES:
            yield _finished(begun.popleft())
    while begun:
        yield _finished(begun.popleft())


def _finished(begun: tuple[list[Item], list[Future[Result]]]) -> tuple[list[Item], list[Result]]:
    return begun[0], [future.result() for future in begun[1]]
