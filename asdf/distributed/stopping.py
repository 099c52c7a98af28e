"""A request to stop, by a signal or a stop file, checked only between steps.

torchrun does not pass SIGUSR1 to its workers, and a scheduler may only reach the batch shell, so
there is a file, which works under every launcher. A process passes its request to the others
through the run's store, so that they end their shares of a stage at about the same time. The last
step does not depend on this: the training loop sums the requests of all ranks at each step, so that
all of them stop at the same one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from asdf.runs.systems import existing_signals

SIGNALS = existing_signals("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2")
_POLL_S = 1.0
_REQUESTED = "stop/requested"


STOPPED = "stopped by"

# Global like signals, since `asdf.distributed.failures` reads it without a `StopRequest`.
_received: set[int] = set()


class Stopped(Exception):
    """The run stopped on request, with everything saved.

    Its text, which begins with `STOPPED` and ends the log, says by what and when.
    """

    def __init__(self, reason: str, when: str) -> None:
        reason = reason or "a request to another process"
        super().__init__(f"{STOPPED} {reason} {when}; the same command resumes from there")


def has_been_terminated() -> bool:
    """Return whether SIGTERM was received and treated as a request to stop."""
    return signal.SIGTERM in _received


class StopRequest:
    """A request to this process to stop; true once there is one, with its `reason`."""

    def __init__(self) -> None:
        self.reason = ""
        self._is_own = False
        self._store: Any = None
        path = os.environ.get("ASDF_STOP_FILE")
        self._file = Path(path) if path else None
        self._next_look_s = 0.0

    def __bool__(self) -> bool:
        now = time.monotonic()
        # Not in every step, since the stop file may be on a file server.
        if not self.reason and now >= self._next_look_s:
            self._next_look_s = now + _POLL_S
            if self._file is not None and self._file.exists():
                self.reason = f"the stop file {self._file}"
                self._is_own = True
            elif self._store is not None:
                self._exchange_with_others()
        if self._is_own and self._store is not None:
            self._exchange_with_others()
            self._store = None
        return bool(self.reason)

    @contextmanager
    def listening(self, store: Any = None) -> Iterator[StopRequest]:
        """Treat the stop signals as requests in the block; a second SIGINT interrupts at once.

        Args:
            store: Store of the processes that stop together, with keys of this group only; None for
                a single process.
        """
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        self._store = store
        try:
            yield self
        finally:
            self._store = None
            for number, handler in before.items():
                signal.signal(number, handler)

    def _exchange_with_others(self) -> None:
        """Share the request of this process, or take over that of another."""
        # The process with the store may have died; the run then ends by itself.
        with suppress(RuntimeError):
            if self._is_own:
                self._store.set(_REQUESTED, self.reason)
            elif self._store.check([_REQUESTED]):
                self.reason = self._store.get(_REQUESTED).decode()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        _received.add(number)
        # Ctrl-C reaches all processes, so a request from another is not this one's first SIGINT.
        # One that reaches torchrun as well is passed on and comes twice: torchrun has the second.
        if number == signal.SIGINT and self._is_own and "TORCHELASTIC_RUN_ID" not in os.environ:
            raise KeyboardInterrupt
        self._is_own = True
        self.reason = f"signal {signal.Signals(number).name}"
