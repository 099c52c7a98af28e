"""The current part of this process's work, recorded for reports of hangs.

Invariant: all processes of a run pass the exchanges of a world in the same order, with the parts of
a step between them. Of two processes, the one with the lower position is therefore behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Position(NamedTuple):
    """The progress of a process; a smaller one is behind.

    Attributes:
        exchanges: Number of exchanges that the process has entered.
        parts: Number of parts of its work entered since the last exchange.
    """

    exchanges: int = 0
    parts: int = 0


class Whereabouts:
    """The current work of a process's main thread, which other threads may read at any time.

    Attributes:
        step: Current optimiser step; 0 before the first.
        position: Progress relative to other processes.
        doing: Name of the innermost open part; '' between parts.
        since_s: Time of the last change, from `time.monotonic`.
    """

    def __init__(self) -> None:
        self.step = 0
        self.position = Position()
        self.doing = ""
        self.since_s = time.monotonic()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Return a block that is a part of this process's own work."""
        exchanges, parts = self.position
        with self._inside(name, Position(exchanges, parts + 1)):
            yield

    @contextmanager
    def exchange(self, name: str) -> Iterator[None]:
        """Return a block that is an exchange, in which this process may wait for others."""
        with self._inside(name, Position(self.position.exchanges + 1)):
            yield

    @contextmanager
    def _inside(self, name: str, position: Position) -> Iterator[None]:
        outer = self.doing
        self.position = position
        self._note(name)
        try:
            yield
        finally:
            self._note(outer)

    def _note(self, name: str) -> None:
        self.doing = name
        self.since_s = time.monotonic()


HERE = Whereabouts()
"""The whereabouts of this process."""
