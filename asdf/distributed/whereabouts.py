"""Where this process is in its work, noted as it goes, so that a report of a hang can say it.

Invariant: all processes of a run pass the exchanges of a world in one order, and between two of
them the parts of a step. So of two processes, the one of the lower position is behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Position(NamedTuple):
    """How far a process has come; a smaller one is behind.

    Attributes:
        exchanges: Exchanges of the world that the process has entered.
        parts: Parts of its work that it has entered since the last exchange.
    """

    exchanges: int = 0
    parts: int = 0


class Whereabouts:
    """What the main thread of a process does; another thread may read it at any time.

    Attributes:
        step: Optimiser step that is being taken; 0 before the first.
        position: Position among the processes.
        doing: Name of the innermost part that is open; '' between parts.
        since_s: Time of the last change, by `time.monotonic`.
    """

    def __init__(self) -> None:
        self.step = 0
        self.position = Position()
        self.doing = ""
        self.since_s = time.monotonic()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Open a part of this process's own work."""
        exchanges, parts = self.position
        with self._inside(name, Position(exchanges, parts + 1)):
            yield

    @contextmanager
    def exchange(self, name: str) -> Iterator[None]:
        """Open an exchange with the other processes, in which this one may wait for them."""
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
