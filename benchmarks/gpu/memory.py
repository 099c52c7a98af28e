"""Peak memory of a training step, next to the value computed without a GPU.

The allocator's peak on a GPU includes cuDNN's workspaces, unlike the computed one: hence the limit.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.gpu.cases import GIB, Measured, case_of, failures, measure, measure_all
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.null_table import saved_count
from benchmarks.gpu.verdict import Line, at_most, measured, not_run

MORE = 1.15
NAME = "XLS-R 300M + AASIST, 14"
# GiB of a step that gpu-counts leaves out, and the GPU memory that it needs.
LARGE = {"wav2vec2_xlsr_1b": 24.0, "wav2vec2_xlsr_2b": 44.0}


def recipe(setup: Setup) -> Iterable[Line]:
    """XLS-R 300M + AASIST with 14 clips, as it is and with checkpointing."""
    bf16, recomputed = {"computing.precision": "bf16"}, {"front_end.gradient_checkpointing": True}
    names = [NAME, f"{NAME}, checkpointing"]
    cases = [case_of(setup, bf16), case_of(setup, {**bf16, **recomputed})]
    results = measure_all(cases)
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Measured):
            yield _compare_count(name, result, setup)
    yield from failures(names, results)


def _compare_count(name: str, result: Measured, setup: Setup) -> Line:
    what, reserved = f"{name}: peak of a step", f"{result.reserved_gib:.2f} GiB reserved"
    if result.dtype != "bfloat16":
        return not_run(what, f"this GPU computes it in {result.dtype}")
    if setup.quick:
        return measured(what, result.peak_gib, "GiB", reserved)
    expected = saved_count(name, "peak_bytes") / GIB
    reason = f"{expected:.2f} GiB without a GPU, {reserved}"
    return at_most(what, result.peak_gib, MORE * expected, "GiB", reason)


def large(setup: Setup) -> Iterable[Line]:
    """XLS-R 1B and 2B, where they fit."""
    if setup.quick:
        yield not_run("XLS-R 1B and 2B: peaks of a step", "not with --quick")
        return
    total = measure(case_of(setup)).total_gib
    for architecture, needed in LARGE.items():
        what = f"{architecture} + AASIST, 14 clips: peak of a step"
        if total < needed:
            yield not_run(what, f"it needs {needed:g} GiB, and the GPU has {total:.0f}")
            continue
        result = measure(case_of(setup, {"front_end.architecture": architecture}))
        yield measured(what, result.peak_gib, "GiB", f"{result.ms:.0f} ms a step")


CHECKS: dict[str, Check] = {"recipe": recipe, "large": large}
