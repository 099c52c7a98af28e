"""Training steps of XLS-R 300M + AASIST and of AASIST on waveforms.

MFU is the time of the step's multiply-adds at the GPU's peak divided by its duration; the busy
share is the time in which a kernel runs divided by the duration; host ms is CPU time, which a busy
GPU hides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.gpu.cases import (
    Case,
    Measured,
    aasist_case,
    case_of,
    failures,
    measure,
    measure_all,
)
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.operations import NO_KERNELS
from benchmarks.gpu.peaks import mfu, peak_flops
from benchmarks.gpu.presence import has_setting, missing
from benchmarks.gpu.verdict import Line, at_least, measured, not_run

# Memory bandwidth, not arithmetic, limits a step: 64 clips move 203 GB in bf16 (counted on a GPU
# that computes nothing), 107 ms on an H100 at 2.7 TB/s, an MFU of 0.27. This is the required
# fraction.
_SHARE_OF_BOUND = 0.7
_MFU_BOUNDS = {64: 0.27}
_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def lines_of(what: str, result: Measured, mfu_target: float | None = None) -> Iterator[Line]:
    """Yield the report lines of a measured case."""
    notes = f"{result.dtype}, host {result.host_ms:.1f} ms"
    yield measured(f"{what}: a step", result.ms, "ms", notes)
    yield measured(f"{what}: speed", result.utterances_per_s, "utterances/s")
    if result.operations is None:
        yield not_run(f"{what}: operations and busy share", NO_KERNELS)
    else:
        yield measured(f"{what}: operations of a step", result.operations)
        yield _busy_line(what, result)
    if result.is_xlsr_aasist:
        yield mfu_line(what, result, mfu_target)


def _busy_line(what: str, result: Measured) -> Line:
    if result.busy_ms is None:
        return not_run(f"{what}: busy share", "this GPU has no clock")
    share = result.busy_ms / result.ms
    return measured(f"{what}: busy share", share, reason=f"kernels {result.busy_ms:.1f} ms")


def mfu_line(what: str, result: Measured, target: float | None) -> Line:
    """Return the fraction of the GPU's peak, compared with a target if there is one."""
    precision = _PRECISIONS[result.dtype]
    peak = peak_flops(result.gpu, precision)
    aim = "" if target is None else f">= {target:g}"
    if peak is None:
        return not_run(f"{what}: MFU", f"the {precision} peak of {result.gpu} is not known", aim)
    share = mfu(result.utterances_per_s, peak)
    if target is None:
        return measured(f"{what}: MFU", share)
    return at_least(f"{what}: MFU", share, target)


def all_lines(cases: dict[str, Case], targets: dict[str, float] | None = None) -> Iterator[Line]:
    """Yield lines of cases by name, measured in one process, with their target MFUs."""
    results = measure_all(list(cases.values()))
    for name, result in zip(cases, results, strict=True):
        if isinstance(result, Measured):
            yield from lines_of(name, result, (targets or {}).get(name))
    yield from failures(list(cases), results)


def precisions(setup: Setup) -> Iterable[Line]:
    """The recipe's minibatch in each number format."""
    size = setup.sizes.minibatches[0]
    requested = list(_PRECISIONS.values())
    cases = [case_of(setup, {"computing.precision": precision}) for precision in requested]
    results = measure_all(cases)
    names = [f"{size} clips, {precision}" for precision in requested]
    for name, precision, result in zip(names, requested, results, strict=True):
        if isinstance(result, str):
            continue
        if _PRECISIONS[result.dtype] == precision:
            yield from lines_of(name, result)
        else:
            yield not_run(f"{name}: a step", f"this GPU computes it in {result.dtype}")
    yield from failures(names, results)


def sizes(setup: Setup) -> Iterable[Line]:
    """Larger minibatches, less memory, fewer weights to train, and AASIST on waveforms."""
    size, *larger = setup.sizes.minibatches
    cases = {f"{many} clips": case_of(setup, minibatch=many) for many in larger}
    checkpointing, frozen = "front_end.gradient_checkpointing", "front_end.frozen"
    cases[f"{size} clips, checkpointing"] = case_of(setup, {checkpointing: True})
    cases[f"{larger[0]} clips, frozen"] = case_of(setup, {frozen: True}, larger[0])
    aasist = aasist_case(setup)
    cases[f"AASIST on waveforms, {aasist.minibatch} clips"] = aasist
    targets = {}
    for many in larger:
        if many in _MFU_BOUNDS:
            targets[f"{many} clips"] = _SHARE_OF_BOUND * _MFU_BOUNDS[many]
    yield from all_lines(cases, targets)


def cuda_graphs(setup: Setup) -> Iterable[Line]:
    """Steps that are recorded once and played back."""
    name = "computing.cuda_graphs"
    case = case_of(setup, {name: True})
    what = f"{case.minibatch} clips, CUDA graphs"
    if has_setting(name):
        yield from lines_of(what, measure(case))
    else:
        yield not_run(what, missing(name))


def norms(setup: Setup) -> Iterable[Line]:
    """Norms in bf16, of which nothing is kept in float32; alone and with CUDA graphs."""
    name = "computing.norms"
    if not has_setting(name):
        yield not_run("norms in bf16", missing(name))
        return
    cases = {
        f"{size} clips, norms in bf16": case_of(setup, {name: "bf16"}, size)
        for size in setup.sizes.minibatches[::2]
    }
    graphed = case_of(setup, {name: "bf16", "computing.cuda_graphs": True})
    cases[f"{graphed.minibatch} clips, norms in bf16, CUDA graphs"] = graphed
    yield from all_lines(cases)


def compiled(setup: Setup) -> Iterable[Line]:
    """computing.compile, which takes a minute before its first step where it takes the whole."""
    size = setup.sizes.minibatches[0]
    for what, value in (("compiled by layers", "layers"), ("compiled", True)):
        if setup.quick:
            yield not_run(f"{size} clips, {what}", "not with --quick")
            continue
        result = measure(case_of(setup, {"computing.compile": value}))
        yield from lines_of(f"{size} clips, {what}", result)
        yield measured(f"{size} clips, {what}: the first step", result.first_s, "s")


CHECKS: dict[str, Check] = {
    "precisions": precisions,
    "sizes": sizes,
    "CUDA graphs": cuda_graphs,
    "norms": norms,
    "compiled": compiled,
}
