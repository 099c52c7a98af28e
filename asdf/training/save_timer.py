"""When training has gone on for so long that a checkpoint inside an epoch is worth writing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

MIN_INTERVAL_S = 30.0
# Writing costs about 2 % of the time, whatever the size of the network and the speed of the disk.
INTERVAL_PER_WRITING = 50


class SaveTimer:
    """Says when the next checkpoint is late, by `network.checkpoint_interval_s`.

    A kill loses the steps since the last checkpoint. Validation and the computing of features are not among them,
    so `restart` takes their time off.

    Args:
        interval: in seconds; 'auto': 50 times what the last writing took, and not less than 30 s; None: never.
        clock: gives seconds.
    """

    def __init__(
        self, interval: float | Literal["auto"] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval, self._clock = interval, clock
        self._writing_s = 0.0
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._since = self._clock()

    def note_writing(self, seconds: float) -> None:
        """Take note of a checkpoint that has just been written, in so many seconds; count from now on."""
        self._writing_s = seconds
        self.restart()

    def interval(self) -> float | None:
        """Seconds from one checkpoint to the next; None: there are none inside an epoch."""
        if self._interval == "auto":
            return max(MIN_INTERVAL_S, INTERVAL_PER_WRITING * self._writing_s)
        return self._interval

    def is_late(self) -> bool:
        """Whether a checkpoint is due."""
        interval = self.interval()
        return interval is not None and self._clock() - self._since >= interval
