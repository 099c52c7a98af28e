"""Recordings read by threads while the network computes.

Invariant: batches come in their order, and no more than a few of them are in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from asdf.data.threads import Threads

Item = TypeVar("Item")
Result = TypeVar("Result")

_BATCHES = 3


@dataclass(frozen=True)
class _ReadingBatch(Generic[Item, Result]):
    """A batch whose items are being read."""

    items: list[Item]
    results: list[Future[Result]]

    def wait(self) -> tuple[list[Item], list[Result]]:
        """Return the items with their results, when all are read."""
        return self.items, [future.result() for future in self.results]


def read_ahead(
    pool: Threads, read: Callable[[Item], Result], batches: Iterable[list[Item]]
) -> Iterator[tuple[list[Item], list[Result]]]:
    """Yield each batch with what `read` returns for its items."""
    reading: deque[_ReadingBatch[Item, Result]] = deque()
    for batch in batches:
        results = [pool.submit(read, item) for item in batch]
        reading.append(_ReadingBatch(batch, results))
        if len(reading) >= _BATCHES:
            yield reading.popleft().wait()
    while reading:
        yield reading.popleft().wait()
