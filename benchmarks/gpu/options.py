"""Options of torch, one by one: their gain in ms per step over the step without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.gpu.cases import Case, Measured, aasist_case, case_of, measure_all
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.verdict import Line, failed, measured, not_run


def one_gpu(setup: Setup) -> Iterable[Line]:
    """cuDNN's choice by time, attention without flash kernels, AASIST's layout, TF32."""
    plain, aasist = case_of(setup), aasist_case(setup)
    fp32 = case_of(setup, {"computing.precision": "fp32"})
    tf32 = replace(fp32, settings={**fp32.settings, "computing.tf32": True})
    pairs = {
        "cudnn.benchmark": (plain, _with(plain, "cudnn_benchmark")),
        "attention without flash kernels": (plain, _with(plain, "no_flash")),
        "AASIST, channels last": (aasist, _with(aasist, "channels_last")),
        "fp32, TF32 allowed": (fp32, tf32),
    }
    yield from compared(pairs)


def two_gpus(setup: Setup) -> Iterable[Line]:
    """How gradients travel."""
    if setup.gpus < 2:
        yield not_run("buckets of 100 MB, gradients sent in bf16", "it needs two GPUs")
        return
    plain = case_of(setup)
    pairs = {
        "2 GPUs, buckets of 100 MB": (plain, _with(plain, "large_buckets")),
        "2 GPUs, gradients sent in bf16": (plain, _with(plain, "bf16_hook")),
    }
    yield from compared(pairs, processes=2)


def compared(pairs: dict[str, tuple[Case, Case]], processes: int = 1) -> Iterator[Line]:
    """Yield cases without and with an option; a case in several comparisons is measured once."""
    cases: list[Case] = []
    for pair in pairs.values():
        cases += [case for case in pair if case not in cases]
    results = measure_all(cases, processes)
    for what, pair in pairs.items():
        yield _compare(what, *(results[cases.index(case)] for case in pair))


def _compare(what: str, plain: Measured | str, changed: Measured | str) -> Line:
    for result in (plain, changed):
        if isinstance(result, str):
            return failed(f"{what}: a step", result)
    assert isinstance(plain, Measured) and isinstance(changed, Measured)
    reason = f"{plain.ms:.2f} ms without: {100 * (changed.ms / plain.ms - 1):+.1f} %"
    return measured(f"{what}: a step", changed.ms, "ms", reason)


def _with(case: Case, option: str) -> Case:
    return replace(case, options=(option,))


CHECKS: dict[str, Check] = {"one GPU": one_gpu, "two GPUs": two_gpus}
