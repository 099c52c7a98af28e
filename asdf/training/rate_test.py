"""A learning-rate test: real steps at rising rates, whose losses indicate a good rate.

Invariant: the steps are those of training, with its batches, loss, optimiser and precision; only
the rate differs. The test is therefore as deterministic as training, on any number of processes,
and saves no network.

The rates rise by a constant factor per step: Smith, "Cyclical learning rates for training neural
networks", WACV 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.training.loop import Trainer
from asdf.training.schedules import Schedule, ScheduleProgress
from asdf.training.training_sections import TrainingSections

# Factors of the configured rate at the first and at the last step.
_LOWEST = 1e-3
_HIGHEST = 1e2
# Weight of the past in the smoothed loss.
_MEMORY = 0.9
# Factor of the lowest smoothed loss above which the loss has diverged.
_DIVERGED = 4.0
_MIN_STEPS_SEEN = 10


@dataclass(frozen=True)
class RateTest:
    """The steps of a test.

    Attributes:
        rates, losses: Learning rate and mean loss of each step.
        ended: Reason why it ended before its last step; '' if it did not.
    """

    rates: Sequence[float]
    losses: Sequence[float]
    ended: str = ""

    @property
    def smoothed(self) -> list[float]:
        """The exponentially smoothed losses, corrected for the bias at the start."""
        values = []
        mean = 0.0
        for number, loss in enumerate(self.losses, 1):
            mean = _MEMORY * mean + (1 - _MEMORY) * loss
            values.append(mean / (1 - _MEMORY**number))
        return values

    @property
    def steepest(self) -> float | None:
        """The rate at which the smoothed loss falls fastest per factor of the rate, or None."""
        smoothed = self.smoothed
        lowest = smoothed.index(min(smoothed)) if smoothed else 0
        best = None
        fastest = 0.0
        for index in range(1, lowest):
            # The rates have a constant ratio, so differences are proportional to slopes.
            slope = (smoothed[index + 1] - smoothed[index - 1]) / 2
            if slope < fastest:
                fastest = slope
                best = self.rates[index]
        return best

    @property
    def highest_useful(self) -> float | None:
        """The rate of the lowest smoothed loss, above which it rises; None if it never fell."""
        smoothed = self.smoothed
        if not smoothed or smoothed.index(min(smoothed)) == 0:
            return None
        return self.rates[smoothed.index(min(smoothed))]

    def record(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "suggestion": self.steepest,
            "lowest_loss_at": self.highest_useful,
            "ended": self.ended,
            "steps": len(self.rates),
            "learning_rate": list(self.rates),
            "loss": list(self.losses),
            "smoothed_loss": self.smoothed,
        }

    def describe(self, shown: int = 12) -> str:
        """Return the course of the loss in some lines, with the conclusion."""
        every = max(1, math.ceil(len(self.rates) / shown))
        lines = ["learning rate   smoothed loss"]
        for index in range(0, len(self.rates), every):
            lines.append(f"{self.rates[index]:<13.3g}   {self.smoothed[index]:.4f}")
        if self.ended:
            lines.append(self.ended)
        if self.steepest is None:
            lines.append(
                "the loss never fell: too few steps, or rates too low or too high throughout. "
                "Change network.initial_learning_rate to shift them."
            )
            return "\n".join(lines)
        lines.append(
            f"the loss falls fastest at {self.steepest:.2g}, and is lowest at "
            f"{self.highest_useful:.2g}: try network.initial_learning_rate={self.steepest:.2g}"
        )
        return "\n".join(lines)


def run_rate_test(
    trainer: Trainer,
    steps: int,
) -> RateTest:
    """Take steps at rising rates; the network is not usable afterwards.

    The test ends early if the loss diverges or a stop is requested.

    Raises:
        AsdfError: the first loss is not finite, or a recording cannot be read.
    """
    rates: list[float] = []
    losses: list[float] = []
    step = trainer.step
    step.network.train()
    step.begin_training(step.labels[trainer.plan.order(1)])
    step.schedule = Schedule(f"{__name__}.rising", _rising(steps))
    progress = trainer.progress
    first = progress.step
    while progress.step - first < steps:
        epoch = progress.epochs + 1
        step.begin_epoch(progress.epochs)
        windows = trainer.plan.windows(epoch, progress.position)
        keys = (share.loader_keys() for window in windows for share in window.shares)
        clips = trainer.loader.unboosted_batches(keys)
        for window in trainer.plan.windows(epoch, progress.position):
            try:
                taken = step.take(window, clips, progress, [float(bool(trainer.stop))])
            except AsdfError as error:
                if not losses:
                    raise
                # All ranks do this, since they agree on the loss of a step.
                LOG.info("%s", error)
                return RateTest(rates, losses, "the loss was not finite at the next rate")
            if taken.flags[0]:
                return RateTest(rates, losses, "a stop was requested")
            # The rate of the main group; others have their own factors of it.
            rates.append(_rate_of(step.settings, progress.step - first - 1, steps))
            losses.append(taken.loss)
            smoothed = RateTest(rates, losses).smoothed
            if len(smoothed) > _MIN_STEPS_SEEN and smoothed[-1] > _DIVERGED * min(smoothed):
                return RateTest(rates, losses, "the loss has diverged: higher rates are left out")
            if progress.step - first >= steps:
                break
        else:
            progress.epochs += 1
            progress.begin_epoch()
    return RateTest(rates, losses)


def _rising(steps: int) -> Any:
    """Return a schedule that rises by a constant factor per step, whatever the warm-up."""

    def rising(
        settings: TrainingSections,
        progress: ScheduleProgress,
    ) -> float:
        factor = _factor(progress.step, steps)
        warmup = settings.network.warmup_steps
        if warmup:
            # The warm-up multiplies the factor of a schedule, which this undoes.
            factor /= min(1.0, (progress.step + 1) / warmup)
        return factor

    return rising


def _factor(
    step: int,
    steps: int,
) -> float:
    """Return the factor of the configured rate at a step, counted from 0."""
    done = min(1.0, step / max(1, steps - 1))
    return _LOWEST * math.exp(done * math.log(_HIGHEST / _LOWEST))


def _rate_of(
    settings: TrainingSections,
    step: int,
    steps: int,
) -> float:
    return float(settings.network.initial_learning_rate) * _factor(step, steps)
