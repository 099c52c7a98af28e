"""The progress of a run: all that a resume needs besides weights, optimiser and loss scale.

Invariants: the random draws of a minibatch depend only on the seed, its step and the rank
(`seed_step`), so the random state of a run at any moment is determined by the few numbers here. An
epoch is read in one order from start to end, the same on all ranks. If a checkpoint's order differs
from this run's, its epoch starts again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import torch

from asdf.data.sampler_orders import Orders
from asdf.data.samplers import SETTING
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.evaluations import Evaluation, evaluations_in
from asdf.runs.layout import NetworkName
from asdf.runs.log import LOG
from asdf.runs.seeds import derived_seed
from asdf.text import shorten
from asdf.trials.trial_list import TrialList


@dataclass
class Progress:
    """The progress of the whole run, over all processes.

    Attributes:
        epochs: Number of whole epochs.
        position: Number of turns taken in the next epoch.
        step: Number of optimiser steps.
        loss_sum, weight_sum: Sums whose quotient is the mean loss of these turns' utterances.
        training_loss: Mean loss of the last whole epoch.
        consecutive_lr_updates, learning_rate_factor: State of the plateau schedule.
        finished: Reason why training ended before its limits; '' if it did not.
        world_size, list_digest: Number of processes and digest of the training list so far.
        order_digest: Digest of the order of the last epoch with a turn taken; '' in checkpoints of
            earlier versions.
        printed_loss_sum, printed_weight_sum: `loss_sum` and `weight_sum` at the last progress line
            of the epoch, 0 before its first.
        terms: Sum and count of each further loss term in the epoch, and their values at the last
            progress line, by the term's name.
    """

    epochs: int = 0
    position: int = 0
    step: int = 0
    loss_sum: float = 0.0
    weight_sum: float = 0.0
    training_loss: float | None = None
    consecutive_lr_updates: int = 0
    learning_rate_factor: float = 1.0
    evaluations: list[Evaluation] = field(default_factory=list)
    finished: str = ""
    world_size: int = 1
    list_digest: str = ""
    order_digest: str = ""
    printed_loss_sum: float = 0.0
    printed_weight_sum: float = 0.0
    terms: dict[str, list[float]] = field(default_factory=dict)

    def network_name(self) -> NetworkName:
        """Return the name of the network at this point."""
        if self.position == 0:
            return NetworkName.after_epoch(self.epochs)
        return NetworkName.inside_epoch(self.epochs + 1, self.step)

    def evaluated(self) -> bool:
        """Return whether the network at this step has been evaluated."""
        return any(evaluation.step == self.step for evaluation in self.evaluations)

    def begin_epoch(self) -> None:
        """Reset the counts within an epoch."""
        self.position = 0
        self.loss_sum = self.weight_sum = 0.0
        self.printed_loss_sum = self.printed_weight_sum = 0.0
        self.terms = {}

    def note_terms(self, counts: Mapping[str, float], sums: Sequence[float]) -> None:
        """Add the sums of a step's terms, and the counts for their means."""
        for (name, count), total in zip(counts.items(), sums, strict=True):
            sums_so_far = self.terms.setdefault(name, [0.0, 0.0, 0.0, 0.0])
            sums_so_far[0] += total
            sums_so_far[1] += count

    def terms_since_printed(self) -> dict[str, float]:
        """Return the means of the terms since the last call within the epoch."""
        means = {}
        for name, (total, count, printed, printed_count) in self.terms.items():
            if count > printed_count:
                means[name] = (total - printed) / (count - printed_count)
            self.terms[name][2:] = [total, count]
        return means

    def terms_of_epoch(self) -> dict[str, float]:
        """Return the means of the terms in the epoch, if they have counts."""
        return {name: sums[0] / sums[1] for name, sums in self.terms.items() if sums[1]}

    def loss_since_printed(self) -> float:
        """Return the mean training loss since the last call within the epoch."""
        loss_sum = self.loss_sum - self.printed_loss_sum
        weight_sum = self.weight_sum - self.printed_weight_sum
        self.printed_loss_sum = self.loss_sum
        self.printed_weight_sum = self.weight_sum
        return loss_sum / weight_sum

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        records = [evaluation.record() for evaluation in self.evaluations]
        state = {**asdict(self), "evaluations": records}
        if not self.terms:
            # Earlier versions can read the files of runs without terms.
            del state["terms"]
        return state

    @classmethod
    def from_state(cls, state: Any) -> Progress:
        """Return the progress that `state` was written from.

        Raises:
            ValueError: `state` is something else.
        """
        if not isinstance(state, dict):
            raise ValueError(f"it is a {type(state).__name__}, not a dictionary")
        known = {field.name: field.default for field in fields(cls)}
        for name, value in state.items():
            if name not in known:
                raise ValueError(f"it has an unknown entry {shorten(repr(name))}")
            if not _fits(name, value, known[name]):
                raise ValueError(f"its {name} is {shorten(repr(value))}")
        # A damaged evaluation is no reason to refuse, since a resumed run reads evaluations.json.
        evaluations = evaluations_in(state.get("evaluations", []))
        progress = cls(**{**state, "evaluations": evaluations})
        # A checkpoint of an earlier version counts as if a progress line had just been printed.
        if "printed_loss_sum" not in state:
            progress.printed_loss_sum = progress.loss_sum
            progress.printed_weight_sum = progress.weight_sum
        return progress


def _fits(name: str, value: Any, default: Any) -> bool:
    """Return whether a value has its entry's type and, for numbers, is valid."""
    if name == "evaluations":
        return isinstance(value, list)
    if name == "terms":
        sums: list[Any] = list(value.values()) if isinstance(value, dict) else [None]
        are_lists = all(isinstance(each, list) and len(each) == 4 for each in sums)
        return are_lists and all(isinstance(number, float) for each in sums for number in each)
    if isinstance(default, str):
        return isinstance(value, str)
    if type(default) is int:
        # bool is a subclass of int.
        return type(value) is int and value >= 0
    return isinstance(value, (int, float)) or (name == "training_loss" and value is None)


def seed_step(seed: int, step: int, minibatch: int, rank: int) -> None:
    """Seed every random source that a network may draw from in this minibatch."""
    number = derived_seed(seed, "step", step, minibatch, rank)
    # As torch.manual_seed, but without formatting a stack for each kind of GPU not in use.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    np.random.seed(number % 2**32)  # numpy takes 32 bits, torch 64
    random.seed(number)


def position_of(progress: Progress, plan: TrainingPlan) -> dict[str, Any]:
    """Return the step, and the epochs including the part of the current one, for a record."""
    return {"step": progress.step, "epoch": progress.epochs + progress.position / plan.size}


def agree_on_order(orders: Orders, epoch: int, sampler: str, world: World) -> str:
    """Return the digest of the order of `epoch`, after checking that it is equal on all ranks.

    Args:
        sampler: Name of the sampler in the settings.

    Raises:
        AsdfError: a rank has another order; raised on every rank.
    """
    digest = orders.digest(epoch)
    others = world.sum([float(digest != world.agree(digest))])[0]
    if others:
        error = AsdfError(
            f"{SETTING} = {sampler!r}: {others:.0f} of the {world.size} processes have a different "
            f"order of epoch {epoch} than the first. It may depend only on the seed and the epoch."
        )
        raise world.common_error(error)
    return digest


def adapt_progress(progress: Progress, utterances: TrialList, orders: Orders, world: World) -> None:
    """Adapt a checkpoint's progress to this run's list and processes; warn of differences."""
    difference = otherwise = ""
    last = progress.epochs + bool(progress.position)
    if progress.list_digest != utterances.digest():
        difference = "the training list differs from that of the checkpoint"
        otherwise = f"epoch {progress.epochs + 1} is the first with it"
    elif progress.order_digest and progress.order_digest != orders.digest(last):
        difference = (
            "the order of the training utterances differs from that of the checkpoint, because "
            f"{SETTING}, recipe.seed or something else that it depends on has changed"
        )
        otherwise = "epochs have another order from here on"
    if difference:
        consequence = "its epoch starts over" if progress.position else otherwise
        LOG.warning(f"{difference}: {consequence}")
        # A position in another order would skip and repeat utterances.
        if progress.position:
            progress.begin_epoch()
    if progress.world_size != world.size:
        LOG.warning(
            f"trained by {progress.world_size} processes so far, by {world.size} from here on: "
            "every turn of this epoch is still taken once, but the steps differ from those of an "
            "uninterrupted run"
        )
    progress.world_size = world.size
    progress.list_digest = utterances.digest()
