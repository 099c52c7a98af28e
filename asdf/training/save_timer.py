"""When training has gone on for so long that a checkpoint inside an epoch is worth saving."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

MIN_INTERVAL_S = 30.0
# Training stands still for about 2 % of the time, whatever the size of the network.
INTERVAL_PER_SAVING = 50
# A disk, which others may use as well, is written to for 10 % of the time at most.
INTERVAL_PER_WRITING = 10


class SaveTimer:
    """Says when the next checkpoint is late, by `network.checkpoint_interval_s`.

    A kill loses the steps since the last checkpoint. Validation and the computing of features are not among them,
    so `restart` takes their time off.

    Args:
        interval: in seconds; 'auto': 50 times what training stood still for the last one, 10 times what its writing
            took, and not less than 30 s; None: never.
        clock: gives seconds.
    """

    def __init__(
        self, interval: float | Literal["auto"] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval, self._clock = interval, clock
        self._saving_s, self._writing_s = 0.0, 0.0
        self._is_writing = False
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._since = self._clock()

    def note_saving(self, seconds: float) -> None:
        """Take note that training stood still for so many seconds; count from now on, while a thread writes."""
        self._saving_s = seconds
        self._is_writing = True
        self.restart()

    def note_writing(self, seconds: float) -> None:
        """Take note that the file has been written, in so many seconds."""
        self._writing_s = seconds
        self._is_writing = False

    def interval(self) -> float | None:
        """Seconds from one checkpoint to the next; None: there are none inside an epoch."""
        if self._interval == "auto":
            by_training = INTERVAL_PER_SAVING * self._saving_s
            by_disk = INTERVAL_PER_WRITING * self._writing_s
            return max(MIN_INTERVAL_S, by_training, by_disk)
        return self._interval

    def is_late(self) -> bool:
        """Whether a checkpoint is due."""
        if self._interval == "auto" and self._is_writing:
            # Training would stand still until the file is written.
            return False
        interval = self.interval()
        return interval is not None and self._clock() - self._since >= interval
