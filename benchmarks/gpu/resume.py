"""A run that is killed at a step and resumed, compared bit by bit with an uninterrupted one.

Without `computing.deterministic` a GPU guarantees nothing, and the line only states the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.cases import case_of, measure
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.killing import PATH, STEP
from benchmarks.gpu.presence import has_setting, missing
from benchmarks.gpu.recipes import Ended, QuickstartRuns, last_line
from benchmarks.gpu.verdict import Line, equal, failed, measured, not_run, stated

SETTING = "computing.deterministic"
SAME, OTHER = "same bits", "other bits"
# A checkpoint after steps 4 and 8 of 12, a kill after step 7.
RUN: dict[str, Any] = {
    "recipe.end_stage": 1,
    "network.max_steps": 12,
    "network.max_epochs": 1,
    "network.checkpoint_interval_steps": 4,
    "network.print_interval": 1,
    "network.callbacks": (PATH,),
}
KILLED_AFTER = "7"


def as_it_is(setup: Setup) -> Iterable[Line]:
    """With the kernels that torch takes by itself."""
    what = "killed and resumed, as it is"
    result = compare_killed_with_whole(setup, "resume", {})
    if result in (SAME, OTHER):
        yield stated(what, result, "a GPU promises nothing here")
    else:
        yield failed(what, result)


def deterministic(setup: Setup) -> Iterable[Line]:
    """With deterministic kernels only."""
    what = f"killed and resumed, {SETTING}"
    if not has_setting(SETTING):
        yield not_run(what, missing(SETTING), SAME)
        return
    yield equal(what, compare_killed_with_whole(setup, "deterministic", {SETTING: True}), SAME)


def cost(setup: Setup) -> Iterable[Line]:
    """What deterministic kernels cost a step."""
    what = f"{SETTING}: a step"
    if not has_setting(SETTING):
        yield not_run(what, missing(SETTING))
        return
    free, fixed = (measure(case_of(setup, {SETTING: value})).ms for value in (False, True))
    yield measured(what, fixed, "ms", f"{100 * (fixed / free - 1):+.1f} %")


def compare_killed_with_whole(setup: Setup, name: str, settings: dict[str, Any]) -> str:
    """Return SAME or OTHER, or why a comparison is impossible."""
    runs = QuickstartRuns(setup, name)
    whole = runs.run("whole", {**RUN, **settings})
    if whole.status:
        return last_line(whole)
    killed = runs.run("killed", {**RUN, **settings}, variables={STEP: KILLED_AFTER})
    if killed.status == 0:
        return "the run that was to be killed ended by itself"
    resumed = runs.run("killed", {**RUN, **settings})
    return _compare(resumed, *(_last_network(runs.networks(name)) for name in ("killed", "whole")))


def _compare(resumed: Ended, first: Path | None, other: Path | None) -> str:
    if resumed.status or first is None or other is None:
        return last_line(resumed)
    if "going on from" not in resumed.output:
        return "the second run began anew"
    return SAME if same_weights(first, other) else OTHER


def _last_network(folder: Path) -> Path | None:
    """Return the newest complete network of a run."""
    files = sorted(folder.glob("*.pt"), key=lambda path: path.stat().st_mtime)
    return files[-1] if files else None


def same_weights(this: Path, other: Path) -> bool:
    """Whether two network files contain the same bits."""
    first, second = (
        torch.load(path, map_location="cpu", weights_only=True)["model_state_dict"]
        for path in (this, other)
    )
    return first.keys() == second.keys() and all(
        _same_bits(first[name], second[name]) for name in first
    )


def _same_bits(first: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors are equal to the last bit; NaN equals itself."""
    return first.dtype == other.dtype and first.numpy().tobytes() == other.numpy().tobytes()


CHECKS: dict[str, Check] = {"as it is": as_it_is, "deterministic": deterministic, "cost": cost}
