"""How long the training is still going to take, by the steps taken since this process began."""

from __future__ import annotations

import time
from collections.abc import Callable

from asdf.data.training_plan import TrainingPlan
from asdf.settings.sections import Network
from asdf.training.progress import Progress


class TimeLeft:
    """Follows the time that steps take, with all that comes between them, and says how much of it is ahead.

    Args:
        clock: gives seconds.
    """

    def __init__(
        self, network: Network, plan: TrainingPlan, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._network, self._plan, self._clock = network, plan, clock
        self.begin(0)

    def begin(self, step: int) -> None:
        """Count from now on; `step` steps were taken by earlier starts of the run."""
        self._first_step, self._since = step, self._clock()

    def seconds(self, progress: Progress) -> float:
        """Seconds to the end, of which validation and checkpoints so far have had their part; a step is needed."""
        per_step = (self._clock() - self._since) / (progress.step - self._first_step)
        return per_step * steps_left(self._network, self._plan, progress)

    def describe(self, seconds: float) -> str:
        """`seconds` for the log: 'about 3 h 20 min left', or 'at most ...' where training may end earlier."""
        ends_early = (
            self._network.schedule == "plateau" or self._network.early_stop_evaluations is not None
        )
        return f"{'at most' if ends_early else 'about'} {duration(seconds)} left"


def steps_left(network: Network, plan: TrainingPlan, progress: Progress) -> int:
    """Optimiser steps from `progress` to `max_epochs`, or to `max_steps` where these are fewer."""
    this_epoch = -(-(plan.size - progress.position) // plan.window_size)
    later_epochs = (network.max_epochs - progress.epochs - 1) * plan.steps_per_epoch()
    steps = max(0, this_epoch + later_epochs)
    if network.max_steps is not None:
        steps = min(steps, max(0, network.max_steps - progress.step))
    return steps


def duration(seconds: float) -> str:
    """`seconds` in the two units that matter: '45 s', '12 min', '3 h 20 min', '2 d 5 h'."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"
