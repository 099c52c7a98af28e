"""The progress line of training, and the record of it that callbacks get.

Invariant: a line reports the steps since the last one; validation and checkpoints between epochs
count in none.
"""

from __future__ import annotations

import time
from typing import Any

from tqdm import tqdm

from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import TrainingPlan
from asdf.runs.log import LOG
from asdf.training.callback_group import CallbackGroup
from asdf.training.instruments.data_wait import DataWait, waiting_share
from asdf.training.instruments.time_left import TimeLeft
from asdf.training.progress import Progress
from asdf.training.step import Step


class ProgressLines:
    """Logs how training goes, every `network.print_interval` steps."""

    def __init__(
        self,
        step: Step,
        plan: TrainingPlan,
        loader: BatchLoader,
        callbacks: CallbackGroup,
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
        """Log a line and call the callbacks, if the step is one of those that are logged.

        Args:
            rate: the highest learning rate of the step.
            bar: shows the time to the end.
        """
        if progress.step % self._interval:
            return
        since_s, since_position, since_clock = self._since
        self._note(progress.position)
        now_s, _, clock = self._since
        seconds = {part: now - since_clock[part] for part, now in clock.items()}
        speed = (progress.position - since_position) / (now_s - since_s)
        seconds_left = self._time_left.seconds(progress)
        record = {
            **position_of(progress, self._plan),
            "loss": progress.loss_since_printed(),
            "learning_rate": rate,
            "utterances_per_s": speed,
            "data_wait": waiting_share(seconds),
            "seconds_left": seconds_left,
        }
        left = self._time_left.describe(seconds_left)
        self._log(progress, record, left)
        bar.set_postfix_str(left)
        advice = self._data_wait.advice(seconds, steady=not self._is_first)
        self._is_first = False
        if advice:
            LOG.info("%s", advice)
        self._callbacks.call("on_step", {**record, **self._loss_scale()})

    def _log(self, progress: Progress, record: dict[str, Any], left: str) -> None:
        LOG.info(
            "epoch %d, utterance %d of %d, step %d: loss %.4f, learning rate %.3g, "
            "%.1f utterances/s, %s",
            progress.epochs + 1,
            progress.position,
            self._plan.size,
            progress.step,
            record["loss"],
            record["learning_rate"],
            record["utterances_per_s"],
            left,
        )

    def _note(self, position: int) -> None:
        self._since = (time.monotonic(), position, self._step.clock.seconds())

    def _loss_scale(self) -> dict[str, Any]:
        """Return fp16's loss scale and the steps that it skipped since the last line; log these."""
        last = self._step.last
        if last.loss_scale is None:
            return {}
        skipped = last.take_skipped()
        if skipped:
            LOG.info(
                "fp16 skipped %d step%s since the last line, whose gradients were not finite: "
                "loss scale %g",
                skipped,
                "s" * (skipped != 1),
                last.loss_scale,
            )
        return {"loss_scale": last.loss_scale, "skipped_steps": skipped}


def position_of(progress: Progress, plan: TrainingPlan) -> dict[str, Any]:
    """Return the step, and the epochs with the done part of the current one, for a record."""
    return {"step": progress.step, "epoch": progress.epochs + progress.position / plan.size}
