"""Reproducibility: equal steps end with equal weights, to the bit, also with CUDA graphs.

This requires `computing.deterministic`: other kernels end two equal runs with different bits, with
or without graphs. It runs in a separate process, because cuBLAS reads its workspace's size once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from asdf.distributed.world import open_world
from benchmarks.gpu.cases import case_of
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.measure import make_step, settings_of
from benchmarks.gpu.verdict import Line, equal, stated

_STEPS = 8
_SAME = "same bits"
_GRAPHS, _DETERMINISTIC = "computing.cuda_graphs", "computing.deterministic"
_CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "with dropout": {"front_end.dropout": 0.1},
    "clipped, averaged": {"network.gradient_clip_norm": 1.0, "network.ema_decay": 0.99},
    "in fp32": {"computing.precision": "fp32"},
}


def deterministic(setup: Setup) -> Iterable[Line]:
    """Steps of deterministic kernels, taken again and taken with graphs."""
    for name, settings in _CASES.items():
        fixed = {**settings, _DETERMINISTIC: True}
        what = f"weights after {_STEPS} steps, deterministic, {name}"
        expected = _weights_after_steps(setup, fixed)
        yield equal(f"{what}: again", _compare_bits(expected, setup, fixed), _SAME)
        graphed = {**fixed, _GRAPHS: True}
        yield equal(f"{what}: with graphs", _compare_bits(expected, setup, graphed), _SAME)


def as_it_is(setup: Setup) -> Iterable[Line]:
    """Steps of the kernels that torch takes by itself."""
    expected = _weights_after_steps(setup, {})
    what = f"weights after {_STEPS} steps, as it is: again"
    yield stated(what, _compare_bits(expected, setup, {}), "a GPU promises nothing here")


def _compare_bits(expected: list[Tensor], setup: Setup, settings: dict[str, Any]) -> str:
    weights = _weights_after_steps(setup, settings)
    pairs = zip(expected, weights, strict=True)
    return _SAME if all(torch.equal(ours, theirs) for ours, theirs in pairs) else "other bits"


def _weights_after_steps(setup: Setup, changes: dict[str, Any]) -> list[Tensor]:
    torch.manual_seed(0)
    case = case_of(setup, changes)
    settings = settings_of(case)
    with open_world(settings.computing) as world:
        step = make_step(case, settings, world)
        for _ in range(_STEPS):
            step()
        weights = [weight.detach().cpu() for weight in step.network.parameters()]
        del step
        gc.collect()
        torch.cuda.empty_cache()
    return weights


CHECKS: dict[str, Check] = {"deterministic": deterministic, "as it is": as_it_is}
