"""A request to stop: a signal, or a stop file that appears; asked for at step boundaries only.

torchrun hands no SIGUSR1 on to its workers and a scheduler may reach only the batch shell, hence the file: it is seen
under every launcher. The request is local to a process; the training loop sums the requests of all ranks at each step,
so that all of them stop at the same one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
_POLL_S = 1.0


STOPPED = "stopped by"


class Stopped(Exception):
    """The run was asked to stop and did so, with everything saved.

    Its text, which begins with `STOPPED` and is the last line of the log, says by what and where.
    """

    def __init__(self, reason: str, place: str) -> None:
        reason = reason or "a request to another process"
        super().__init__(f"{STOPPED} {reason} {place}; the same command goes on from there")


_received: set[int] = set()


def has_been_terminated() -> bool:
    """Whether SIGTERM came and was taken for a request, which a process that ends anyway cannot follow."""
    return signal.SIGTERM in _received


class StopRequest:
    """Whether this process has been asked to stop, and by what."""

    def __init__(self) -> None:
        self.reason = ""
        path = os.environ.get("ASDF_STOP_FILE")
        self._file = Path(path) if path else None
        self._next_look = 0.0

    def __bool__(self) -> bool:
        if not self.reason and self._file is not None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _POLL_S
            if self._file.exists():
                self.reason = f"the stop file {self._file}"
        return bool(self.reason)

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Take the stop signals for requests while the block runs; a second SIGINT interrupts at once."""
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        _received.add(number)
        if number == signal.SIGINT and self.reason:
            raise KeyboardInterrupt
        self.reason = f"signal {signal.Signals(number).name}"
