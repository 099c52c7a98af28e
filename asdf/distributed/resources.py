"""What a process computes with, and what it took, for the record of a run."""

from __future__ import annotations

import resource
import sys

import torch

from asdf.distributed.devices import driver_version
from asdf.distributed.world import World

_MB = 1_000_000
# The kernel counts in kilobytes, that of macOS in bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def library_versions(device: torch.device) -> dict[str, str | None]:
    """Versions of CUDA, cuDNN, NCCL and NVIDIA's driver that a GPU is used with; None on a CPU."""
    on_gpu = device.type == "cuda"
    nccl = torch.cuda.nccl.version() if on_gpu and torch.distributed.is_nccl_available() else None
    return {
        "cuda": torch.version.cuda if on_gpu else None,
        "cudnn": _cudnn_version() if on_gpu else None,
        "nccl": ".".join(map(str, nccl)) if nccl else None,
        "driver": driver_version() or None if on_gpu else None,
    }


def _cudnn_version() -> str | None:
    """The version of cuDNN; None where torch refuses the one it finds: a record ends no run."""
    try:
        return str(torch.backends.cudnn.version())
    except RuntimeError:
        return None


def start_counting_memory(device: torch.device) -> None:
    """Count the peak of the GPU's memory anew; that of the host is counted from the start of the process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory_mb(device: torch.device) -> dict[str, float | None]:
    """The most memory that this process took on the host, without its loaders, and that torch reserved on its GPU."""
    gpu = torch.cuda.max_memory_reserved(device) / _MB if device.type == "cuda" else None
    return {
        "host": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT / _MB, 1),
        "gpu": None if gpu is None else round(gpu, 1),
    }


def gpu_memory(device: torch.device) -> int:
    """The memory of a GPU in bytes, whether free or not; 0 of a CPU."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory)


def smallest_gpu(world: World) -> int:
    """The memory of the smallest GPU of all processes in bytes, the same on every rank; 0 on CPUs."""
    every = world.gather(gpu_memory(world.device))
    return world.agree(min(every or [0]))
