"""What lets a run fit into a GPU's memory, each with the peak that it would have."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from asdf.data.scoring_plan import batch_samples
from asdf.errors import UsageError
from asdf.memory.case import BESIDE, Case, Gpu, choose_format, gib
from asdf.memory.training import TrainingMemory
from asdf.settings.sections import assign

# Less than this is no help.
_SAVED = 0.01
_HALVES = 4


def advice(case: Case, gpu: Gpu, training: TrainingMemory | None, scoring_peak: int) -> list[str]:
    """Name the settings that would help, a line each; those that let it fit say so."""
    room = gpu.total - BESIDE
    lines = [
        "warning: that does not fit. What would help, and what the GPU's memory would have to be:"
    ]
    if training is not None and training.peak > room:
        lines += _training_lines(case, gpu, training.peak, room)
    if scoring_peak > room:
        lines += _scoring_lines(case, training, room)
    return lines


def _training_lines(case: Case, gpu: Gpu, peak: int, room: int) -> Iterator[str]:
    together: dict[str, Any] = {}
    for change in _changes(case, gpu):
        try:
            changed = _peak(case, gpu, change)
        except UsageError:  # not every network can be divided
            continue
        if changed < peak * (1 - _SAVED):
            yield _line(change, changed, room)
            # A frozen front end trains another network.
            if "front_end.frozen" not in change:
                together |= change
    smaller, changed = _smaller_minibatch(case, gpu, {}, room)
    if smaller:
        yield _line(smaller, changed, room)
    if smaller and together and changed > room:
        yield _line(*_smaller_minibatch(case, gpu, together, room), room)


def _changes(case: Case, gpu: Gpu) -> Iterator[dict[str, Any]]:
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


def _smaller_minibatch(
    case: Case, gpu: Gpu, others: dict[str, Any], room: int
) -> tuple[dict[str, Any], int]:
    """`others` with the largest part of the minibatch that fits, or with the smallest; and the peak then.

    An optimiser step stays one of as many utterances. Nothing where the minibatch has no parts.
    """
    network = case.settings.network
    whole = network.global_minibatch_size
    size, least = (network.minibatch_size, 1) if whole is None else (whole, case.processes)
    divisors = [parts for parts in range(2, size // least + 1) if size % (parts * least) == 0]
    if not divisors:
        return {}, 0
    smallest = _divided(case, others, divisors[-1])
    peak = _peak(case, gpu, smallest)
    for parts in divisors[:-1] if peak <= room else []:
        change = _divided(case, others, parts)
        larger = _peak(case, gpu, change)
        if larger <= room:
            return change, larger
    return smallest, peak


def _divided(case: Case, others: dict[str, Any], parts: int) -> dict[str, Any]:
    """`others` with minibatches of 1 / `parts`, and as many more of them per optimiser step."""
    network = case.settings.network
    name = "global_minibatch_size" if network.global_minibatch_size else "minibatch_size"
    return {
        **others,
        f"network.{name}": getattr(network, name) // parts,
        "network.optimizer_step_interval": network.optimizer_step_interval * parts,
    }


def _scoring_lines(case: Case, training: TrainingMemory | None, room: int) -> Iterator[str]:
    worst = case.scoring().worst
    network = case.settings.network
    # 'auto' stands for a factor, too.
    budget = batch_samples(network, case.gpu_bytes)
    factor = budget / (network.minibatch_size * network.train_clip_size)
    name = "network.eval_minibatch_size_factor"
    if worst.utterances == 1:
        yield (
            "a lower network.max_evaluation_utterance_length_in_samples: the longest recording is what takes most"
        )
        return
    for _ in range(_HALVES):
        factor = round(factor / 2, 3)
        changed = _changed(case, {name: factor})
        peak = changed.scoring_peak(changed.scoring(), training)
        if peak <= room:
            break
    yield _line({name: factor}, peak, room)


def _peak(case: Case, gpu: Gpu, change: dict[str, Any]) -> int:
    """The peak of the training with settings changed."""
    changed = _changed(case, change)
    dtype = choose_format(changed.settings.computing, gpu)
    training = replace(changed, dtype=dtype).training()
    assert training is not None  # advice is asked for a training
    return training.peak


def _changed(case: Case, change: dict[str, Any]) -> Case:
    settings = copy.deepcopy(case.settings)
    assign(settings, change)
    return replace(case, settings=settings)


def _line(change: dict[str, Any], peak: int, room: int) -> str:
    words = " ".join(f"{name}={value!r}" for name, value in change.items())
    return f"  {words}: {gib(peak + BESIDE)}{', which fits' if peak <= room else ''}"
