"""A request to stop: a signal, or a stop file that appears; checked between steps only.

torchrun passes no SIGUSR1 on to its workers and a scheduler may reach only the batch shell, hence
the file: it works under every launcher. The request is local to a process; the training loop sums
the requests of all ranks at each step, so that all of them stop at the same one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from asdf.runs.systems import existing_signals

SIGNALS = existing_signals("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2")
_POLL_S = 1.0


STOPPED = "stopped by"


class Stopped(Exception):
    """The run stopped on request, with everything saved.

    Its text, which begins with `STOPPED` and is the last line of the log, says by what and when.
    """

    def __init__(self, reason: str, when: str) -> None:
        reason = reason or "a request to another process"
        super().__init__(f"{STOPPED} {reason} {when}; the same command goes on from there")


# Of the process, as signals are: `asdf.distributed.failures` asks without a `StopRequest`.
_received: set[int] = set()


def has_been_terminated() -> bool:
    """Return whether SIGTERM came and was treated as a request to stop."""
    return signal.SIGTERM in _received


class StopRequest:
    """A request to this process to stop; true once there is one, with its `reason`."""

    def __init__(self) -> None:
        self.reason = ""
        path = os.environ.get("ASDF_STOP_FILE")
        self._file = Path(path) if path else None
        self._next_look_s = 0.0

    def __bool__(self) -> bool:
        now = time.monotonic()
        # Not in every step: the stop file may be on a file server.
        if not self.reason and self._file is not None and now >= self._next_look_s:
            self._next_look_s = now + _POLL_S
            if self._file.exists():
                self.reason = f"the stop file {self._file}"
        return bool(self.reason)

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Treat the stop signals as requests in the block; a second SIGINT interrupts at once."""
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
