"""Peak performance of this GPU, its attention kernels, and the time of each kind of kernel.

The other groups state the duration of a step; these numbers explain it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from asdf.distributed.world import World
from benchmarks.gpu.cases import case_of
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.measure import make_step, settings_of
from benchmarks.gpu.operations import NO_KERNELS
from benchmarks.gpu.verdict import Line, equal, measured, not_run

# Kinds of kernels by parts of their names; the first match applies.
_KINDS = (
    ("attention", ("flash", "fmha", "sdpa", "attention")),
    ("convolutions", ("conv", "implicit", "wgrad", "dgrad")),
    ("matrix products", ("gemm", "cutlass", "nvjet", "sm90_", "cublas", "xmma")),
    ("norms", ("layer_norm", "layernorm", "gammabeta", "rowwisemoments", "batch_norm", "bn_")),
    ("optimiser", ("adam", "multi_tensor", "multitensor", "foreach")),
    ("GELU", ("gelu",)),
    ("casts and copies", ("copy", "memcpy", "cat")),
    ("sums", ("reduce", "sum")),
)
_TOP = 5


def ceilings(setup: Setup) -> Iterable[Line]:
    """Products, copies and launches at their best."""
    device = torch.device("cuda", 0)
    size = 256 if setup.quick else 8192
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    seconds, _ = _warm_seconds_of(lambda: a @ a, 10)
    yield measured("products in bf16", 2 * size**3 / seconds / 1e12, "TFLOP/s", f"{size} x {size}")
    bytes_ = 2**20 if setup.quick else 2**31
    source = torch.empty(bytes_, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds, _ = _warm_seconds_of(lambda: target.copy_(source), 10)
    yield measured("copies within the memory", 2 * bytes_ / seconds / 1e12, "TB/s")
    small = torch.ones(64, device=device)
    seconds, host = _warm_seconds_of(lambda: small.add_(1), 100 if setup.quick else 10_000)
    yield measured("a small launch", 1e6 * seconds, "us", f"host {1e6 * host:.1f} us")


def attention(setup: Setup) -> Iterable[Line]:
    """The attention that runs take, and each kind's time at the sizes of wav2vec 2.0."""
    for clips, frames in ((2, 64),) if setup.quick else ((14, 201), (64, 201), (40, 400)):
        x = torch.randn(clips, frames, 1024, device="cuda", dtype=torch.bfloat16)
        x.requires_grad_()
        queries, keys, values = (
            part.view(clips, frames, 16, 64).transpose(1, 2) for part in (x, 1.1 * x, 0.9 * x)
        )
        chosen = SDPBackend(torch._fused_sdp_choice(queries, keys, values)).name
        heads = (queries, keys, values)
        what = f"attention of {clips} x {frames} frames"
        yield equal(f"{what}: taken", chosen, SDPBackend.FLASH_ATTENTION.name)
        for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            yield from _time_attention(f"{what}: {kind.name}", kind, heads, x, setup)


def _time_attention(
    what: str, kind: SDPBackend, heads: tuple[Tensor, Tensor, Tensor], x: Tensor, setup: Setup
) -> Iterator[Line]:
    queries, keys, values = heads

    def compute() -> None:
        x.grad = None
        attended = F.scaled_dot_product_attention(queries, keys, values)
        attended.sum().backward(retain_graph=True)

    with sdpa_kernel(kind):
        try:
            first, _ = _seconds_of(compute, 1)
            _seconds_of(compute, 3)
        except RuntimeError as error:
            yield not_run(what, str(error).partition("\n")[0])
            return
        seconds, host = _seconds_of(compute, 2 if setup.quick else 50)
    notes = f"host {1e6 * host:.0f} us, the first {1e3 * first:.1f} ms"
    yield measured(f"{what}, both passes", 1e6 * seconds, "us", notes)
    assert x.grad is not None
    wrong = int((~x.grad.isfinite()).sum())
    yield equal(f"{what}: gradients that are not finite", wrong, 0)


def kinds(setup: Setup) -> Iterable[Line]:
    """Kernels of a step by kind, the longest by name, and steps in a row without a stop."""
    case = case_of(setup)
    step = make_step(case, settings_of(case), World(device=torch.device("cuda", 0)))
    first, _ = _seconds_of(step, 1)
    yield measured("the first step", first, "s")
    _seconds_of(step, 3)
    seconds, host = _seconds_of(step, case.rounds)
    yield measured("steps in a row: a step", 1e3 * seconds, "ms", f"host {1e3 * host:.1f} ms")
    spent = _time_kernels(step)
    if not spent:
        yield not_run("kernels by kind", NO_KERNELS)
        return
    by_kind: dict[str, float] = defaultdict(float)
    for name, microseconds in spent.items():
        by_kind[_kind_of(name)] += microseconds
    for kind, microseconds in sorted(by_kind.items(), key=lambda item: -item[1]):
        yield measured(f"kernels of a step: {kind}", microseconds / 1e3, "ms")
    longest = sorted(spent.items(), key=lambda item: -item[1])[:_TOP]
    for rank, (name, microseconds) in enumerate(longest, 1):
        yield measured(f"kernel {rank} of a step", microseconds / 1e3, "ms", name[:80])


def _seconds_of(function: Callable[[], Any], times: int) -> tuple[float, float]:
    """Return the seconds of a call including the device's work, and those of the busy host."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(times):
        function()
    host = time.perf_counter() - began
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / times, host / times


def _warm_seconds_of(function: Callable[[], Any], times: int) -> tuple[float, float]:
    _seconds_of(function, 3)
    return _seconds_of(function, times)


def _time_kernels(function: Callable[[], Any]) -> dict[str, float]:
    """Return microseconds by the name of a kernel; {} if the profiler sees none."""
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        function()
        torch.cuda.synchronize()
    spent: dict[str, float] = defaultdict(float)
    for event in record.events() or ():
        if event.device_type.name == "CUDA" and not event.is_user_annotation:
            spent[event.name] += event.time_range.end - event.time_range.start
    return dict(spent)


def _kind_of(name: str) -> str:
    lower = name.lower()
    for kind, parts in _KINDS:
        if any(part in lower for part in parts):
            return kind
    return "element by element, and others"


CHECKS: dict[str, Check] = {"ceilings": ceilings, "attention": attention, "kinds": kinds}
