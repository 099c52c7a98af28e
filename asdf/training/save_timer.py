"""When a checkpoint inside an epoch is worth saving."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

MIN_INTERVAL_S = 30.0
# Training pauses for about 2 % of the time, whatever the size of the network.
INTERVAL_PER_SAVING = 50
# A disk, which others may use as well, is written to for 10 % of the time at most.
INTERVAL_PER_WRITING = 10


class SaveTimer:
    """Measures whether the next checkpoint is late, by `network.checkpoint_interval_s`.

    A kill loses the steps since the last checkpoint, but no validation and no computed features. So
    `restart` is called after these: their time does not count.

    Args:
        interval: Interval in seconds; None: never; 'auto': 50 times the pause for the last
            checkpoint or 10 times what its writing took, whichever is longer, and at least 30 s.
        clock: Function that returns seconds.
    """

    def __init__(
        self, interval: float | Literal["auto"] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._clock = clock
        self._saving_s = 0.0
        self._writing_s = 0.0
        self._is_writing = False
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._since_s = self._clock()

    def note_saving(self, seconds: float) -> None:
        """Note the seconds that training paused; count from now on, while a thread writes."""
        self._saving_s = seconds
        self._is_writing = True
        self.restart()

    def note_writing(self, seconds: float) -> None:
        """Note that the file has been written, and in how many seconds."""
        self._writing_s = seconds
        self._is_writing = False

    def interval(self) -> float | None:
        """Return the seconds from one checkpoint to the next; None: none inside an epoch."""
        if self._interval != "auto":
            return self._interval
        by_training = INTERVAL_PER_SAVING * self._saving_s
        by_disk = INTERVAL_PER_WRITING * self._writing_s
        return max(MIN_INTERVAL_S, by_training, by_disk)

    def is_late(self) -> bool:
        """Return whether a checkpoint is due."""
        if self._interval == "auto" and self._is_writing:
            # Training would pause until the file is written.
            return False
        interval = self.interval()
        return interval is not None and self._clock() - self._since_s >= interval
