"""The learning rate of each step.

Invariant: the rate depends only on the settings and the run's progress, so a checkpoint needs no
state of a schedule; `base_lr` of a parameter group is its rate before any schedule.

A schedule is a function of the settings and a `ScheduleProgress` that returns the factor of every
parameter group's base rate. A user's own is named by its path:

    def triangle(settings, progress):
        return 1 - abs(2 * progress.done - 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import torch

from asdf.errors import AsdfError
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_function
from asdf.settings.sections import SCHEDULES, Network, Sections
from asdf.training.training_progress import Progress

SETTING = "network.schedule"


@dataclass(frozen=True)
class ScheduleProgress:
    """The progress of training before a step, as schedules see it.

    All but `step` depend on the utterances used, so they are the same on any number of processes.

    Attributes:
        done: Proportion of the training that is done, 0 to 1, relative to `network.max_epochs`, or
            to `network.max_steps` if that ends it sooner.
        epochs: Epochs done, including the part of the current one, such as 2.25.
        step: Optimiser steps taken.
        plateau_factor: Factor of the rate from the plateau rule so far.
    """

    done: float = 0.0
    epochs: float = 0.0
    step: int = 0
    plateau_factor: float = 1.0

    @classmethod
    def of(cls, training: Network, progress: Progress, size: int) -> ScheduleProgress:
        """Return the progress of a run with epochs of `size` utterances."""
        done = (progress.epochs * size + progress.position) / (training.max_epochs * size)
        if training.max_steps is not None:
            # Use the limit that will end the training.
            done = max(done, progress.step / training.max_steps)
        return cls(
            done=min(1.0, done),
            epochs=progress.epochs + progress.position / size,
            step=progress.step,
            plateau_factor=progress.learning_rate_factor,
        )


ScheduleFunction = Callable[[Sections, ScheduleProgress], float]


def constant(settings: Sections, progress: ScheduleProgress) -> float:
    """Return 1."""
    return 1.0


def plateau(settings: Sections, progress: ScheduleProgress) -> float:
    """Return the factor that `update_plateau` has set."""
    return progress.plateau_factor


def linear(settings: Sections, progress: ScheduleProgress) -> float:
    """Return a factor that falls linearly from 1 to `min_learning_rate` over the main rate."""
    return _above_lowest(settings, 1 - progress.done)


def cosine(settings: Sections, progress: ScheduleProgress) -> float:
    """Return a factor of half a cosine, from 1 to `min_learning_rate` over the main rate."""
    return _above_lowest(settings, 0.5 * (1 + math.cos(math.pi * progress.done)))


def step(settings: Sections, progress: ScheduleProgress) -> float:
    """Return `step_factor` to the number of passed `step_epochs`, down to `min_learning_rate`."""
    steps_down = int(progress.epochs // settings.network.step_epochs)
    factor = settings.network.step_factor**steps_down
    return max(_lowest_share(settings), factor)


def _above_lowest(settings: Sections, factor: float) -> float:
    """Return a factor that falls with `factor` from 1 to the lowest one."""
    lowest = _lowest_share(settings)
    return lowest + (1 - lowest) * factor


def _lowest_share(settings: Sections) -> float:
    # Other groups end at the same proportion of their own rate as the main one.
    return settings.network.min_learning_rate / settings.network.initial_learning_rate


@dataclass(frozen=True)
class Schedule:
    """The schedule that `network.schedule` names; `factor` checks the function's result."""

    path: str
    function: ScheduleFunction

    def factor(self, settings: Sections, progress: ScheduleProgress) -> float:
        """Return the factor of a parameter group's base rate, without the warm-up.

        Raises:
            AsdfError: the function fails, or does not return a number of at least 0.
        """
        about = f"{SETTING}: {self.path} at step {progress.step + 1}"
        with UserErrors(f"{about} failed"):
            factor = self.function(settings, progress)
        if not isinstance(factor, Real) or not math.isfinite(factor) or factor < 0:
            raise AsdfError(
                f"{about} returned {factor!r}. It must return a factor of the learning rate, "
                "finite and at least 0 (1: the whole rate)."
            )
        return float(factor)


def find_schedule(settings: Sections, folder: Path | None) -> Schedule:
    """Return the schedule that `network.schedule` names.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the function does not exist.
        AsdfError: importing its module fails, or the function fails before the first step.
    """
    path = class_path_of(SETTING, settings.network.schedule)
    schedule = Schedule(path, find_function(path, folder, SETTING))
    schedule.factor(settings, ScheduleProgress())
    return schedule


def set_learning_rate(
    optimiser: torch.optim.Optimizer,
    schedule: Schedule,
    settings: Sections,
    progress: Progress,
    size: int,
) -> float:
    """Set the learning rate of the next step in every group.

    Args:
        size: Number of utterances of an epoch.

    Returns:
        Highest learning rate.

    Raises:
        AsdfError: the schedule's function fails.
    """
    training = settings.network
    factor = schedule.factor(settings, ScheduleProgress.of(training, progress, size))
    warmup = 1.0
    if training.warmup_steps:
        # Linear from the first step on, where a rate of 0 would change nothing.
        warmup = min(1.0, (progress.step + 1) / training.warmup_steps)
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * warmup * factor
    return max(float(group["lr"]) for group in optimiser.param_groups)


def follows_plateau(training: Network) -> bool:
    """Return whether the schedule is 'plateau'."""
    return class_path_of(SETTING, training.schedule) == SCHEDULES["plateau"]


def update_plateau(training: Network, progress: Progress, loss: float) -> str:
    """Lower the rate at the end of an epoch if its loss has improved too little.

    `progress.finished` is set after `max_consecutive_lr_updates` in a row.

    Returns:
        Line for the log, or ''.
    """
    previous = progress.training_loss
    # Set for every schedule, since network files hold it and a resumed run may use 'plateau'.
    progress.training_loss = loss
    if not follows_plateau(training) or previous is None:
        return ""
    # Near the target loss, improvements are small; without a minimum they would always count.
    room = max(training.min_room_for_improvement, previous - training.target_loss)
    change = (previous - loss) / room
    if change >= training.min_loss_change_ratio:
        progress.consecutive_lr_updates = 0
        return ""
    progress.learning_rate_factor *= training.lr_update_ratio
    progress.consecutive_lr_updates += 1
    progress.finished = plateau_end(training, progress)
    return (
        f"the loss improved by {100 * change:.2f} %, less than "
        f"{100 * training.min_loss_change_ratio:g} %: learning rate times "
        f"{training.lr_update_ratio:g}, update {progress.consecutive_lr_updates} in a row"
    )


def plateau_end(training: Network, progress: Progress) -> str:
    """Return why the plateau schedule ends the training; '' if it does not."""
    updates = progress.consecutive_lr_updates
    if not follows_plateau(training) or updates < training.max_consecutive_lr_updates:
        return ""
    return f"{updates} learning rate updates in a row"
