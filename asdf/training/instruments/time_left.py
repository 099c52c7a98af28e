"""How long the training is still going to take, by the steps taken since this process began."""

from __future__ import annotations

import time
from collections.abc import Callable

from asdf.data.training_plan import TrainingPlan
from asdf.settings.sections import Network
from asdf.training.progress import Progress
from asdf.training.schedules import follows_plateau


class TimeLeft:
    """The time per step, with everything between the steps, and the time to the end.

    Args:
        training: its limits.
        clock: Function that returns seconds.
    """

    def __init__(
        self, training: Network, plan: TrainingPlan, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._training = training
        self._plan = plan
        self._clock = clock
        self.begin(0)

    def begin(self, step: int) -> None:
        """Count from now on; earlier starts of the run have taken `step` steps."""
        self._first_step = step
        self._since_s = self._clock()

    def seconds(self, progress: Progress) -> float:
        """Return the seconds to the end; at least one step must have been taken.

        The time per step includes the validation and the checkpoints so far.
        """
        steps_taken = progress.step - self._first_step
        seconds_per_step = (self._clock() - self._since_s) / steps_taken
        return seconds_per_step * steps_left(self._training, self._plan, progress)

    def describe(self, seconds: float) -> str:
        """Return 'about 3 h 20 min left', or 'at most ...' where training may end earlier."""
        may_stop_early = self._training.early_stop_evaluations is not None
        if may_stop_early or follows_plateau(self._training):
            return f"at most {duration(seconds)} left"
        return f"about {duration(seconds)} left"


def steps_left(training: Network, plan: TrainingPlan, progress: Progress) -> int:
    """Return the optimiser steps to `max_epochs`, or to `max_steps` if these are fewer."""
    # The last step of an epoch may be a short one.
    this_epoch = -(-(plan.size - progress.position) // plan.window_size)
    later_epochs = (training.max_epochs - progress.epochs - 1) * plan.steps_per_epoch()
    steps = max(0, this_epoch + later_epochs)
    if training.max_steps is None:
        return steps
    return min(steps, max(0, training.max_steps - progress.step))


def duration(seconds: float) -> str:
    """Return the two units that matter: '45 s', '12 min', '3 h 20 min', '2 d 5 h'."""
    # From 59.5 on, rounding would give '60 s'.
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"
