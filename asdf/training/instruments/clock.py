"""The time of each part of training, measured at the cost of microseconds per step.

Invariant: the parts add up to the total: all time from one mark to the next belongs to one part. On
a GPU, marks are events in the stream of its work, read long after they have passed, so nothing
waits for the measurement. As the host runs ahead of the GPU, a part is the time in which the GPU
worked for it or was idle. Reading clips while the GPU works has no cost and is not counted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

DATA = "waiting for data"
FORWARD = "forward"
BACKWARD = "backward"
OPTIMISER = "optimiser"
COMMUNICATION = "communication"
REST = "rest"
PARTS = (DATA, FORWARD, BACKWARD, OPTIMISER, COMMUNICATION, REST)

# Events are read when more than this many are pending, since by then most have passed.
_MAX_PENDING = 64


class StepClock:
    """The summed time of each of `PARTS`; time between two parts is 'rest'.

    Each part is also a range with that name in an active profile.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream_time = device.type == "cuda"
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._since: float | None = None
        self._events: deque[tuple[str, torch.cuda.Event]] = deque()

    def restart(self) -> None:
        """Reset all sums to zero; the time since the last part is not counted."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._since = None
        self._events.clear()
        self._mark(REST)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of this block as that of a part."""
        self._mark(REST)
        with torch.profiler.record_function(name):
            yield
        self._mark(name)

    def seconds(self, wait: bool = False) -> dict[str, float]:
        """Return the time of each part since the last `restart`.

        Args:
            wait: Whether to wait for the GPU to finish its work; otherwise work that is still
                queued is not counted yet.
        """
        if wait:
            self._mark(REST)
        self._settle(wait)
        return dict(self._seconds)

    def _mark(self, name: str) -> None:
        """Count the time since the last mark as that of `name`."""
        if self._stream_time:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append((name, event))
            if len(self._events) > _MAX_PENDING:
                self._settle(wait=False)
            return
        now = time.perf_counter()
        if self._since is not None:
            self._seconds[name] += now - self._since
        self._since = now

    def _settle(self, wait: bool) -> None:
        while len(self._events) > 1:
            _, before = self._events[0]
            name, event = self._events[1]
            if wait:
                event.synchronize()
            elif not event.query():
                return
            self._seconds[name] += before.elapsed_time(event) / 1000
            self._events.popleft()
