"""The progress line of training, and its record for callbacks.

Invariant: a line reports the steps since the last one; validation and checkpoints between epochs
are not included, except in the time to the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tqdm import tqdm

from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import TrainingPlan
from asdf.runs.log import LOG
from asdf.settings.sections import Network
from asdf.text import count_of
from asdf.training.callback_group import CallbackGroup
from asdf.training.profile import DATA
from asdf.training.schedules import follows_plateau
from asdf.training.step import Step
from asdf.training.training_progress import Progress, position_of

_ACCEPTED_SHARE = 0.1
_JUDGED_S = 30.0


class DataWait:
    """Sums the time spent waiting for clips, and reports once if it is too long.

    Args:
        workers: Number of loader processes of this process.
        cores: Number of cores that this process may use.
    """

    def __init__(self, workers: int, cores: int) -> None:
        self.workers = workers
        self.cores = cores
        self._waited_s = 0.0
        self._total_s = 0.0
        self._is_reported = False

    def advice(self, seconds: Mapping[str, float], steady: bool) -> str:
        """Return a line for the log if much of half a minute or more was spent waiting, else ''.

        The line is returned only once.

        Args:
            seconds: Time of each part of the clock since the last call, in seconds.
            steady: Whether the time counts; False while the workers start on a new epoch.
        """
        if steady:
            self._waited_s += seconds[DATA]
            self._total_s += sum(seconds.values())
        if self._is_reported or self._total_s < _JUDGED_S:
            return ""
        if self._waited_s <= _ACCEPTED_SHARE * self._total_s:
            return ""
        self._is_reported = True
        percentage = 100 * self._waited_s / self._total_s
        cores = count_of(self.cores, "core")
        remedy = (
            f"the {cores} of this process can read no faster. Ask for more cores, keep the "
            "recordings on a disk of the node itself, as WAV at 16 kHz, or augment less"
        )
        if self.workers < self.cores and self.cores > 1:
            remedy = f"raise computing.network_dataloader_workers (now {self.workers} of {cores})"
        return f"waiting for data took {percentage:.0f} % of the time: {remedy}"


class TimeLeft:
    """The time per step, including all work between steps, and the time to the end.

    Args:
        training: Section with the limits of training.
        clock: Function that returns the time in seconds.
    """

    def __init__(
        self, training: Network, plan: TrainingPlan, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._training = training
        self._plan = plan
        self._clock = clock
        self.begin(0)

    def begin(self, step: int) -> None:
        """Start counting; earlier starts of the run have taken `step` steps."""
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
        """Return 'about 3 h 20 min left', or 'at most ...' if training may end earlier."""
        may_stop_early = self._training.early_stop_evaluations is not None
        if may_stop_early or follows_plateau(self._training):
            return f"at most {duration(seconds)} left"
        return f"about {duration(seconds)} left"


def steps_left(training: Network, plan: TrainingPlan, progress: Progress) -> int:
    """Return the optimiser steps to `max_epochs`, or to `max_steps` if these are fewer."""
    # The last step of an epoch may be a short one.
    epoch = progress.epochs + 1
    this_epoch = plan.steps_per_epoch(epoch) - plan.steps_before(epoch, progress.position)
    later_epochs = (training.max_epochs - epoch) * plan.steps_per_epoch(epoch)
    steps = max(0, this_epoch + later_epochs)
    if training.max_steps is None:
        return steps
    return min(steps, max(0, training.max_steps - progress.step))


def duration(seconds: float) -> str:
    """Return the two relevant units: '45 s', '12 min', '3 h 20 min', '2 d 5 h'."""
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


class ProgressLines:
    """Logs the progress of training every `network.print_interval` steps."""

    def __init__(
        self, step: Step, plan: TrainingPlan, loader: BatchLoader, callbacks: CallbackGroup
    ) -> None:
        self._step = step
        self._plan = plan
        self._callbacks = callbacks
        self._interval = step.settings.network.print_interval
        self._data_wait = DataWait(loader.workers, loader.cores)
        self._time_left = TimeLeft(step.settings.network, plan)
        self._is_first = True
        self._note(0)

    def begin_run(self, progress: Progress) -> None:
        """Estimate the time to the end from the steps taken from now on."""
        self._time_left.begin(progress.step)

    def begin_epoch(self, progress: Progress) -> None:
        """Let the next line report the steps from now on; the workers start on a new epoch."""
        self._is_first = True
        self._note(progress.position)

    def log_if_due(self, progress: Progress, rate: float, bar: tqdm) -> None:
        """Log a line and call the callbacks if the step is one to log.

        Args:
            rate: Highest learning rate of the step.
            bar: Progress bar, which shows the time to the end.
        """
        if progress.step % self._interval:
            return
        since_s, since_position, since_clock = self._since
        self._note(progress.position)
        now_s, _, clock = self._since
        seconds = {part: now - since_clock[part] for part, now in clock.items()}
        speed = (progress.position - since_position) / (now_s - since_s)
        seconds_left = self._time_left.seconds(progress)
        total_s = sum(seconds.values())
        waiting = seconds[DATA] / total_s if total_s else 0.0
        record = {
            **position_of(progress, self._plan),
            "loss": progress.loss_since_printed(),
            "learning_rate": rate,
            "utterances_per_s": speed,
            "data_wait": waiting,
            "seconds_left": seconds_left,
        }
        line = (
            f"epoch {progress.epochs + 1}, utterance {progress.position} of {self._plan.size}, "
            f"step {progress.step}: loss {record['loss']:.4f}, "
        )
        terms = progress.terms_since_printed()
        if terms:
            record["terms"] = terms
            line += "".join(f"{name} {value:.4f}, " for name, value in terms.items())
        left = self._time_left.describe(seconds_left)
        line += f"learning rate {rate:.3g}, {speed:.1f} utterances/s, {left}"
        line += f", data wait {100 * waiting:.0f} %"
        mfu = self._step.utilisation(speed)
        if mfu is not None:
            record["mfu"] = mfu
            line += f", MFU {100 * mfu:.0f} %"
        LOG.info("%s", line)
        bar.set_postfix_str(left)
        advice = self._data_wait.advice(seconds, steady=not self._is_first)
        self._is_first = False
        if advice:
            LOG.info("%s", advice)
        last = self._step.update.last
        if last.loss_scale is not None:
            skipped = last.take_skipped()
            record["loss_scale"] = last.loss_scale
            record["skipped_steps"] = skipped
            if skipped:
                LOG.info(
                    f"fp16 skipped {count_of(skipped, 'step')} since the last line, whose "
                    f"gradients were not finite: loss scale {last.loss_scale:g}"
                )
        self._callbacks.call("on_step", record)

    def _note(self, position: int) -> None:
        self._since = (time.monotonic(), position, self._step.clock.seconds())
