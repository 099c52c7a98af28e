"""fp16 with loss scaling: convergence of its scale, and the number of skipped steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchmarks.gpu.cases import case_of, measure
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.verdict import Line, at_least, at_most

MAX_SKIPPED = 0.1


def hundred_steps(setup: Setup) -> Iterable[Line]:
    """The recipe's network for 100 steps."""
    rounds = 6 if setup.quick else 100
    case = replace(case_of(setup, {"computing.precision": "fp16"}), rounds=rounds)
    result = measure(case)
    what = f"{case.minibatch} clips, fp16, after {rounds} steps"
    yield at_least(f"{what}: loss scale", result.loss_scale or 0.0, 1.0)
    yield at_most(f"{what}: skipped steps", result.skipped, MAX_SKIPPED * rounds)


CHECKS: dict[str, Check] = {"100 steps": hundred_steps}
