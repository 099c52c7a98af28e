"""The libraries and the memory use of a process, for the record of a run."""

from __future__ import annotations

from contextlib import suppress

import torch

from asdf.distributed.devices import driver_version
from asdf.distributed.world import World
from asdf.runs.systems import peak_memory_bytes

_MB = 1_000_000


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
    host = peak_memory_bytes()
    gpu = None
    if device.type == "cuda":
        gpu = round(torch.cuda.max_memory_reserved(device) / _MB, 1)
    return {"host": None if host is None else round(host / _MB, 1), "gpu": gpu}


def gpu_memory(device: torch.device) -> int:
    """Return the total memory of a GPU in bytes; 0 for a CPU."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory)


def smallest_gpu(world: World) -> int:
    """Return the memory of the smallest GPU of all processes in bytes, on every rank; 0 on CPUs."""
    # The minimum over all ranks, so that batch sizes do not depend on the rank.
    memories = world.gather(gpu_memory(world.device))
    return world.agree(min(memories or [0]))
