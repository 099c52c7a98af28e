"""The learning rate of each step.

Invariant: the rate is a function of the settings and of the run's progress, so a checkpoint needs
no state of a schedule; `base_lr` of a parameter group is its rate before any schedule.

A schedule is a function of the settings and a `ScheduleProgress` that returns the share of its base
rate that each parameter group gets. One of the user's own is named by its path:

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
from asdf.settings.sections import SCHEDULES, Network
from asdf.training.training_progress import Progress
from asdf.training.training_sections import TrainingSections

SETTING = "network.schedule"


@dataclass(frozen=True)
class ScheduleProgress:
    """How far training has come before a step, as schedules see it.

    All but `step` follow the use of utterances, so they are the same on any number of processes.

    Attributes:
        done: the part of the training that is done, 0 to 1: of `network.max_epochs`, or of
            `network.max_steps` where that ends it sooner.
        epochs: epochs done, with the part of the one that is under way: 2.25.
        step: optimiser steps taken.
        plateau_factor: Factor of the rate by the plateau rule so far.
    """

    done: float = 0.0
    epochs: float = 0.0
    step: int = 0
    plateau_factor: float = 1.0

    @classmethod
    def of(cls, training: Network, progress: Progress, size: int) -> ScheduleProgress:
        """Return that of a run whose epochs have `size` utterances."""
        done = (progress.epochs * size + progress.position) / (training.max_epochs * size)
        if training.max_steps is not None:
            # Whichever limit will end the training.
            done = max(done, progress.step / training.max_steps)
        return cls(
            done=min(1.0, done),
            epochs=progress.epochs + progress.position / size,
            step=progress.step,
            plateau_factor=progress.learning_rate_factor,
        )


ScheduleFunction = Callable[[TrainingSections, ScheduleProgress], float]


def constant(settings: TrainingSections, progress: ScheduleProgress) -> float:
    """Return 1."""
    return 1.0


def plateau(settings: TrainingSections, progress: ScheduleProgress) -> float:
    """Return what `update_plateau` has made of the rate so far."""
    return progress.plateau_factor


def linear(settings: TrainingSections, progress: ScheduleProgress) -> float:
    """Return a straight line from 1 to `min_learning_rate` as a share of the main rate."""
    return _above_lowest(settings, 1 - progress.done)


def cosine(settings: TrainingSections, progress: ScheduleProgress) -> float:
    """Return half a cosine, from 1 to `min_learning_rate` as a share of the main rate."""
    return _above_lowest(settings, 0.5 * (1 + math.cos(math.pi * progress.done)))


def cosine_restarts(settings: TrainingSections, progress: ScheduleProgress) -> float:
    """Return half a cosine as `cosine` over `restart_epochs`, then again from 1 on.

    Each is `restart_growth` times as long as the one before: SGDR (Loshchilov and Hutter, ICLR
    2017).
    """
    length = settings.network.restart_epochs
    growth = settings.network.restart_growth
    since = progress.epochs
    if growth == 1:
        since %= length
    else:
        while since >= length:
            since -= length
            length *= growth
    return _above_lowest(settings, 0.5 * (1 + math.cos(math.pi * since / length)))


def step(settings: TrainingSections, progress: ScheduleProgress) -> float:
    """Return 1 times `step_factor` for each `step_epochs` epochs, down to `min_learning_rate`."""
    steps_down = int(progress.epochs // settings.network.step_epochs)
    factor = settings.network.step_factor**steps_down
    return max(_lowest_share(settings), factor)


def _above_lowest(settings: TrainingSections, factor: float) -> float:
    """Return a share that falls with `factor` from 1 to the lowest one."""
    lowest = _lowest_share(settings)
    return lowest + (1 - lowest) * factor


def _lowest_share(settings: TrainingSections) -> float:
    # Other groups end as far below their own rate as the main one below its.
    return settings.network.min_learning_rate / settings.network.initial_learning_rate


@dataclass(frozen=True)
class Schedule:
    """The schedule that `network.schedule` names; `factor` checks what its function returns."""

    path: str
    function: ScheduleFunction

    def factor(self, settings: TrainingSections, progress: ScheduleProgress) -> float:
        """Return the share of its base rate that a parameter group gets, without the warm-up.

        Raises:
            AsdfError: the function fails, or returns something other than a number from 0 on.
        """
        about = f"{SETTING}: {self.path} at step {progress.step + 1}"
        with UserErrors(f"{about} failed"):
            factor = self.function(settings, progress)
        if not isinstance(factor, Real) or not math.isfinite(factor) or factor < 0:
            raise AsdfError(
                f"{about} gave {factor!r}. It must return the share of the learning rate, a finite "
                "number from 0 on (1: the whole rate)."
            )
        return float(factor)


def find_schedule(settings: TrainingSections, folder: Path | None) -> Schedule:
    """Return the schedule that `network.schedule` names.

    Args:
        folder: Folder of the recipe, where a user's own modules lie.

    Raises:
        UsageError: no such function exists.
        AsdfError: its module fails when it is imported, or the function before the first step.
    """
    path = class_path_of(SETTING, settings.network.schedule)
    schedule = Schedule(path, find_function(path, folder, SETTING))
    schedule.factor(settings, ScheduleProgress())
    return schedule


def set_learning_rate(
    optimiser: torch.optim.Optimizer,
    schedule: Schedule,
    settings: TrainingSections,
    progress: Progress,
    size: int,
) -> float:
    """Set the rate of the coming step in every group.

    Args:
        size: utterances of an epoch.

    Returns:
        The highest rate.

    Raises:
        AsdfError: the schedule's function fails.
    """
    training = settings.network
    factor = schedule.factor(settings, ScheduleProgress.of(training, progress, size))
    warmup = 1.0
    if training.warmup_steps:
        # A linear rise from the first step on, which would change nothing at a rate of 0.
        warmup = min(1.0, (progress.step + 1) / training.warmup_steps)
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * warmup * factor
    return max(float(group["lr"]) for group in optimiser.param_groups)


def follows_plateau(training: Network) -> bool:
    """Return whether the schedule is 'plateau'."""
    return class_path_of(SETTING, training.schedule) == SCHEDULES["plateau"]


def update_plateau(training: Network, progress: Progress, loss: float) -> str:
    """Lower the rate at the end of an epoch whose loss has improved too little.

    `progress.finished` is set after `max_consecutive_lr_updates` in a row.

    Returns:
        A line for the log, or ''.
    """
    previous = progress.training_loss
    # Whatever the schedule: network files hold it, and a resumed run may be set to 'plateau'.
    progress.training_loss = loss
    if not follows_plateau(training) or previous is None:
        return ""
    # Near the target loss improvements are small; without a floor they would always count.
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
    """Return why the plateau schedule ends the training; '' while it does not."""
    updates = progress.consecutive_lr_updates
    if not follows_plateau(training) or updates < training.max_consecutive_lr_updates:
        return ""
    return f"{updates} learning rate updates in a row"
