"""The GPU of a process: the choice, its memory, and copies that the host does not wait for.

Invariant: values of a copy are those of a plain one; on the CPU nothing is copied. A copy to or
from ordinary memory makes the host wait until the GPU has finished all its work; a copy through
pinned memory does not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from asdf.distributed.devices import (
    SeenGpus,
    check_kernels,
    choose_device,
    driver_version,
    installed_torch,
    look_without_torch,
    usable_gpus,
)
from asdf.runs.systems import peak_memory_bytes
from asdf.settings.sections import Computing

_MB = 1_000_000


def look_at_gpus() -> SeenGpus:
    """Return what torch and the system report on GPUs, starting CUDA if a GPU exists."""
    seen = look_without_torch()
    count = torch.cuda.device_count()
    failure = ""
    if count or (seen.on_node and seen.build.platform):
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            count = 0
            failure = str(error).splitlines()[0]
    others = {"XPU": torch.xpu.is_available(), "MPS": torch.backends.mps.is_available()}
    other = next((name for name, is_there in others.items() if is_there), "")
    return replace(seen, count=count, failure=failure, other=other)


def take_device(computing: Computing, local_rank: int, local_size: int) -> tuple[str, str]:
    """Choose the device of this process and make it torch's current device.

    Returns:
        The device, 'cpu' or 'cuda:0', and a unique name of its GPU, or ''.

    Raises:
        UsageError: no GPU can be used although one should be (see `usable_gpus`), it lacks kernels
            (see `check_kernels`), or the mapping is impossible (see `choose_device`).
    """
    gpus = usable_gpus(computing, look_at_gpus()) if computing.use_gpu else 0
    name = choose_device(computing, local_rank, local_size, gpus)
    if name == "cpu":
        return name, ""
    properties = torch.cuda.get_device_properties(name)
    capability = (properties.major, properties.minor)
    check_kernels(properties.name, capability, torch.cuda.get_arch_list(), installed_torch())
    torch.cuda.set_device(name)
    return name, identify(properties)


def identify(properties: object) -> str:
    """Return a unique name for a GPU: its UUID and its position on the machine's bus.

    The position distinguishes GPUs if a driver reports no UUIDs.
    """
    names = ("uuid", "pci_domain_id", "pci_bus_id", "pci_device_id")
    uuid, domain, bus, device = (getattr(properties, name, 0) for name in names)
    return f"{uuid} at {domain:04x}:{bus:02x}:{device:02x}"


def library_versions(device: torch.device) -> dict[str, str | None]:
    """Return the versions of CUDA, cuDNN, NCCL and NVIDIA's driver for a GPU; None on a CPU."""
    if device.type != "cuda":
        return {"cuda": None, "cudnn": None, "nccl": None, "driver": None}
    versions = {"cuda": torch.version.cuda, "cudnn": None, "nccl": None}
    # torch refuses some versions of cuDNN, but a record must not end a run.
    with suppress(RuntimeError):
        versions["cudnn"] = str(torch.backends.cudnn.version())
    if torch.distributed.is_nccl_available():
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return {**versions, "driver": driver_version() or None}


def start_counting_memory(device: torch.device) -> None:
    """Reset the peak of the GPU's memory; that of the host counts from the start."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory_mb(device: torch.device) -> dict[str, float | None]:
    """Return the peak memory of this process in MB on the host, without loaders, and on its GPU.

    The value for the GPU is the memory reserved by torch; None on a CPU.
    """
    on_gpu = torch.cuda.max_memory_reserved(device) if device.type == "cuda" else None
    peaks = {"host": peak_memory_bytes(), "gpu": on_gpu}
    return {name: None if peak is None else round(peak / _MB, 1) for name, peak in peaks.items()}


def gpu_memory(device: torch.device) -> int:
    """Return the total memory of a GPU in bytes; 0 for a CPU."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a CPU tensor on `device`; on a GPU it arrives after previously queued work."""
    if device.type != "cuda":
        return tensor.to(device)
    # torch does not reuse the pinned memory before the copy is done.
    return tensor.pin_memory().to(device, non_blocking=True)


def fetch_later(values: Tensor) -> Callable[[], Tensor]:
    """Start copying a tensor to the host.

    Returns:
        Function that returns the copy. It waits only for the computation of the tensor, not for
        work queued later.
    """
    if values.device.type != "cuda":
        return values.cpu
    host = torch.empty_like(values, device="cpu", pin_memory=True)
    host.copy_(values, non_blocking=True)
    # Waiting for a blocking event leaves the core free to read clips.
    arrived = torch.cuda.Event(blocking=True)
    arrived.record(torch.cuda.current_stream(values.device))

    def wait_for_copy() -> Tensor:
        arrived.synchronize()
        return host

    return wait_for_copy
