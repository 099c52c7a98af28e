"""Changes that let a run fit into a GPU's memory, each with the resulting peak."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from asdf.data.scoring_plan import batch_samples
from asdf.errors import UsageError
from asdf.memory.case import (
    OUTSIDE_ALLOCATOR,
    Case,
    Gpu,
    choose_format,
    in_gibibytes,
    scoring_memory,
)
from asdf.memory.training_step import TrainingMemory, scoring_peak, training_memory

# A smaller saving is not worth mentioning.
_MIN_SAVED = 0.01
_MAX_HALVES = 4

_EVAL_FACTOR = "network.eval_minibatch_size_factor"


@dataclass(frozen=True)
class _Change:
    """Settings that are changed together, by full name, and the run's peak with them."""

    settings: dict[str, Any]
    peak: int

    def describe(self, limit: int) -> str:
        """Return a line that states whether the run would fit into `limit` bytes."""
        words = " ".join(f"{name}={value!r}" for name, value in self.settings.items())
        fits = ", which fits" if self.peak <= limit else ""
        return f"  {words}: {in_gibibytes(self.peak + OUTSIDE_ALLOCATOR)}{fits}"


def list_advice(
    case: Case,
    gpu: Gpu,
    training: TrainingMemory | None,
    scoring_peak: int,
) -> list[str]:
    """List the settings that would help, one per line, stating which let the run fit."""
    limit = gpu.total - OUTSIDE_ALLOCATOR
    lines = [
        "warning: that does not fit. These would help; with the GPU memory that would be needed:"
    ]
    if training is not None and training.peak > limit:
        lines += [change.describe(limit) for change in _training_changes(case, gpu, training.peak)]
    if scoring_peak > limit:
        lines.append(_advise_on_scoring(case, training, limit))
    return lines


def _training_changes(case: Case, gpu: Gpu, peak: int) -> Iterator[_Change]:
    """Yield changes that would help a training of `peak` bytes: single ones, then combinations."""
    limit = gpu.total - OUTSIDE_ALLOCATOR
    together: dict[str, Any] = {}
    for settings in _possible_settings(case):
        try:
            change = _try_settings(case, gpu, settings)
        except UsageError:
            # Not every network can be divided.
            continue
        if change.peak >= peak * (1 - _MIN_SAVED):
            continue
        yield change
        # A frozen front end changes what is trained.
        if "front_end.frozen" not in settings:
            together |= settings
    smaller = _shrink_minibatch(case, gpu, {})
    if smaller is None:
        return
    yield smaller
    if together and smaller.peak > limit:
        both = _shrink_minibatch(case, gpu, together)
        assert both is not None  # the minibatch has parts
        yield both


def _possible_settings(case: Case) -> Iterator[dict[str, Any]]:
    front_end = case.settings.front_end
    if case.dtype is None:
        yield {"computing.precision": "auto"}
    if not front_end.gradient_checkpointing:
        yield {"front_end.gradient_checkpointing": True}
    if not front_end.frozen and front_end.unfreeze_after_epochs is None:
        yield {"front_end.frozen": True}
    computing = case.settings.computing
    if case.processes > 1 and not (computing.shard_network or computing.compile):
        yield {"computing.shard_network": True}


def _shrink_minibatch(case: Case, gpu: Gpu, others: dict[str, Any]) -> _Change | None:
    """Return `others` with the largest fraction of the minibatch that fits, or the smallest one.

    An optimiser step keeps its number of utterances. None if the minibatch cannot be divided.
    """
    network = case.settings.network
    limit = gpu.total - OUTSIDE_ALLOCATOR
    size = network.minibatch_size
    smallest = 1
    if network.global_minibatch_size is not None:
        size = network.global_minibatch_size
        smallest = case.processes
    divisors = [parts for parts in range(2, size // smallest + 1) if size % (parts * smallest) == 0]
    if not divisors:
        return None
    # The smallest one first: each attempt takes a step of the network.
    last = _try_settings(case, gpu, _divide_minibatch(case, others, divisors[-1]))
    if last.peak > limit:
        return last
    for parts in divisors[:-1]:
        larger = _try_settings(case, gpu, _divide_minibatch(case, others, parts))
        if larger.peak <= limit:
            return larger
    return last


def _divide_minibatch(case: Case, others: dict[str, Any], parts: int) -> dict[str, Any]:
    """Return `others` with minibatches of 1 / `parts`, and as many more per step."""
    network = case.settings.network
    name = "global_minibatch_size" if network.global_minibatch_size else "minibatch_size"
    return {
        **others,
        f"network.{name}": getattr(network, name) // parts,
        "network.optimizer_step_interval": network.optimizer_step_interval * parts,
    }


def _advise_on_scoring(case: Case, training: TrainingMemory | None, limit: int) -> str:
    if scoring_memory(case).worst.utterances == 1:
        return (
            "a lower network.max_evaluation_utterance_length_in_samples: the longest recording "
            "takes the most"
        )
    network = case.settings.network
    # 'auto' is replaced by a factor too.
    budget = batch_samples(network, case.gpu_bytes)
    factor = budget / (network.minibatch_size * network.train_clip_size)
    for _ in range(_MAX_HALVES):
        factor = round(factor / 2, 3)
        settings = {_EVAL_FACTOR: factor}
        changed = _change_settings(case, settings)
        change = _Change(settings, scoring_peak(changed, scoring_memory(changed), training))
        if change.peak <= limit:
            break
    return change.describe(limit)


def _try_settings(case: Case, gpu: Gpu, settings: dict[str, Any]) -> _Change:
    """Compute the peak of the training with changed settings."""
    changed = _change_settings(case, settings)
    dtype = choose_format(changed.settings.computing, gpu)
    return _Change(settings, training_memory(replace(changed, dtype=dtype)).peak)


def _change_settings(case: Case, changes: dict[str, Any]) -> Case:
    settings = copy.deepcopy(case.settings)
    for name, value in changes.items():
        section, setting = name.split(".")
        setattr(getattr(settings, section), setting, value)
    return replace(case, settings=settings)
