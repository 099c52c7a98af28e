"""The learning rate of each step.

Invariant: the rate is a function of the settings and of the run's progress, so a checkpoint needs
no state of a schedule; `base_lr` of a parameter group is its rate before any schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from asdf.settings.sections import Network
from asdf.training.progress import Progress

# Takes the settings, the progress and the turns of an epoch (by default one of each training
# utterance), and returns the share of its base rate that a parameter group gets, without the
# warm-up.
Schedule = Callable[[Network, Progress, int], float]


def _constant(training: Network, progress: Progress, size: int) -> float:
    return 1.0


def _plateau(training: Network, progress: Progress, size: int) -> float:
    """Return what `update_plateau` has made of the rate so far."""
    return progress.learning_rate_factor


def _cosine(training: Network, progress: Progress, size: int) -> float:
    """Return half a cosine, from 1 to `min_learning_rate` as a share of the main rate.

    It follows the turns of utterances, not steps, so it is the same on any number of processes.
    """
    done = (progress.epochs * size + progress.position) / (training.max_epochs * size)
    if training.max_steps is not None:
        # Whichever limit will end the training.
        done = max(done, progress.step / training.max_steps)
    factor = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    # Other groups end as far below their own rate as the main one below its.
    lowest = training.min_learning_rate / training.initial_learning_rate
    return lowest + (1 - lowest) * factor


# The values of `network.schedule`.
SCHEDULES: dict[str, Schedule] = {"constant": _constant, "plateau": _plateau, "cosine": _cosine}


def set_learning_rate(
    optimiser: torch.optim.Optimizer, training: Network, progress: Progress, size: int
) -> float:
    """Set the rate of the coming step in every group.

    Args:
        size: turns of an epoch.

    Returns:
        The highest rate.
    """
    factor = SCHEDULES[training.schedule](training, progress, size)
    warmup = _warmup_factor(training, progress)
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * warmup * factor
    return max(float(group["lr"]) for group in optimiser.param_groups)


def _warmup_factor(training: Network, progress: Progress) -> float:
    """Return a linear rise to 1 over the first `network.warmup_steps` steps."""
    if not training.warmup_steps:
        return 1.0
    # From the first step on, which would change nothing at a rate of 0.
    return min(1.0, (progress.step + 1) / training.warmup_steps)


def update_plateau(training: Network, progress: Progress, loss: float) -> str:
    """Lower the rate at the end of an epoch whose loss has improved too little.

    `progress.finished` is set after `max_consecutive_lr_updates` in a row.

    Returns:
        A line for the log, or ''.
    """
    previous = progress.training_loss
    # Whatever the schedule: network files hold it, and a resumed run may be set to 'plateau'.
    progress.training_loss = loss
    if training.schedule != "plateau" or previous is None:
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
    if training.schedule != "plateau" or updates < training.max_consecutive_lr_updates:
        return ""
    return f"{updates} learning rate updates in a row"
