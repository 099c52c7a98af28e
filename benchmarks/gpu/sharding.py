"""Weights, gradients and moments sharded over the GPUs (FSDP2): the cost of a step."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.gpu.cases import case_of, measure
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.presence import has_setting, missing
from benchmarks.gpu.verdict import Line, at_most, measured, not_run

SETTING = "computing.shard_network"


def two_gpus(setup: Setup) -> Iterable[Line]:
    """A step on two GPUs, whole and sharded."""
    what = "2 GPUs, sharded"
    if not has_setting(SETTING):
        yield not_run(what, missing(SETTING))
        return
    if setup.gpus < 2:
        yield not_run(what, "it needs two GPUs")
        return
    whole, sharded = (
        measure(case_of(setup, {SETTING: shard}), processes=2) for shard in (False, True)
    )
    yield at_most(f"{what}: peak of a step", sharded.peak_gib, whole.peak_gib, "GiB")
    yield measured(f"{what}: a step", sharded.ms, "ms", f"{whole.ms:.1f} ms whole")


CHECKS: dict[str, Check] = {"two GPUs": two_gpus}
