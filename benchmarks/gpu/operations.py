"""The device's work for a function: number and duration of operations."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

NO_KERNELS = "the profiler saw no kernel: this user may not profile, or CUPTI is not there"


@dataclass(frozen=True)
class Operations:
    """Kernels, memory set, and copies within the device.

    Attributes:
        busy_s: Time in which at least one ran, in seconds; None if the device has no clock.
    """

    count: int
    busy_s: float | None


def operations_of(function: Callable[[], Any]) -> Operations | None:
    """Return the operations of one call; None if the profiler sees nothing of the device."""
    if hasattr(ctypes.CDLL(None), "null_gpu_counter"):
        return _count_on_null_gpu(function)
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        function()
        torch.cuda.synchronize()
    events = [event for event in record.events() or () if event.device_type.name == "CUDA"]
    kernels = [event for event in events if not event.is_user_annotation and _within(event.name)]
    if not kernels:
        return None
    spans = sorted((kernel.time_range.start, kernel.time_range.end) for kernel in kernels)
    return Operations(len(kernels), _covered(spans) / 1e6)


def _within(name: str) -> bool:
    """Whether an operation is device work other than a copy from or to the host."""
    return not name.startswith("Memcpy") or "DtoD" in name


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of sorted spans."""
    covered, until = 0.0, float("-inf")
    for start, end in spans:
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def _count_on_null_gpu(function: Callable[[], Any]) -> Operations:
    """Count on the null GPU of the tests, which counts by itself, and has no clock."""
    from tests.gpu.null_gpu.watch import Watch

    with Watch() as seen:
        function()
    return Operations(seen.operations(), None)
