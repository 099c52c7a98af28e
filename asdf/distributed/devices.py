"""Which device a process computes on: `gpu_ids[local rank]`, within what CUDA_VISIBLE_DEVICES shows.

The local rank counts, never the global one: on several nodes each node has its own GPU 0. No torch here, so that a
dry run can print the mapping at once.
"""

from __future__ import annotations

import os
from pathlib import Path

from asdf.errors import UsageError
from asdf.settings.sections import Computing


def visible_gpus() -> int:
    """How many NVIDIA GPUs this process may see, without starting CUDA."""
    here = Path("/proc/driver/nvidia/gpus")
    count = len(list(here.iterdir())) if here.is_dir() else len(list(Path("/dev").glob("nvidia[0-9]*")))
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is None:
        return count
    named = [name for name in shown.split(",") if name.strip() and name.strip() != "-1"]
    return min(count, len(named))


def choose_device(computing: Computing, local_rank: int, local_size: int, gpus: int) -> str:
    """'cpu' or 'cuda:N' for the process of `local_rank` among the `local_size` processes of this node.

    Args:
        gpus: number of GPUs that are visible here.

    Raises:
        UsageError: gpu_ids is shorter than the number of processes, or names a GPU twice or one that is not there.
    """
    if not computing.use_gpu or gpus == 0:
        return "cpu"
    ids = tuple(range(local_size)) if computing.gpu_ids is None else computing.gpu_ids
    mistake = ""
    if len(ids) < local_size:
        mistake = f"{local_size} processes on this node, but only {len(ids)} GPUs named"
    elif len(set(ids)) < len(ids):
        mistake = "a GPU is named twice"
    elif max(ids[:local_size]) >= gpus:
        mistake = f"GPU {max(ids[:local_size])} is not there: {gpus} visible, numbered from 0"
    if mistake:
        mapping = ", ".join(f"local rank {r} -> {_gpu(ids, r)}" for r in range(local_size))
        shown = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        raise UsageError(
            f"computing.gpu_ids = {computing.gpu_ids}: {mistake}. The mapping would have been: {mapping} "
            f"(CUDA_VISIBLE_DEVICES is {shown}). Name one GPU for each process of a node, or start fewer processes."
        )
    return f"cuda:{ids[local_rank]}"


def describe_mapping(computing: Computing, local_size: int) -> list[str]:
    """One line for each process of this node: the device that it would use."""
    gpus = visible_gpus()
    lines = [f"local rank {r}: {choose_device(computing, r, local_size, gpus)}" for r in range(local_size)]
    if computing.use_gpu and gpus == 0:
        lines.append("(no NVIDIA GPU is visible here, so the CPU)")
    return lines


def _gpu(ids: tuple[int, ...], rank: int) -> str:
    return f"cuda:{ids[rank]}" if rank < len(ids) else "nothing"
