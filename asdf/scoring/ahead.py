"""Recordings read by threads while the network computes.

Invariant: batches come in their order, and no more than a few of them are in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TypeVar

from asdf.data.threads import Threads, threads

Item = TypeVar("Item")
Result = TypeVar("Result")

# Decoders let other threads run, so that threads do as well as processes, and need no copies.
_READERS = 4
_BATCHES = 3


def pool_of_readers() -> AbstractContextManager[Threads]:
    """Threads that read, and are let go of at the end of the block."""
    return threads(_READERS)


def read_ahead(
    pool: Threads, read: Callable[[Item], Result], batches: Iterable[list[Item]]
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
