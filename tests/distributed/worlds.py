"""Worlds of 3 and of 2 processes over gloo, each of which computes and saves results."""

from __future__ import annotations

import faulthandler
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from asdf.distributed.world import World

Compute = Callable[[World], dict[str, Any]]
SIZES = (3, 2)


def compute_in_worlds(
    compute: Compute, folder: Path, sizes: tuple[int, ...] = SIZES
) -> dict[int, dict[str, Any]]:
    """Return what the main rank of each world computes, by the number of processes.

    Args:
        compute: Function of a module, so that it can be sent to other processes.
        folder: Folder for the files of this call alone.
        sizes: Numbers of processes.
    """
    # Each world has processes of its own, as a run does: torch keeps groups that were left alive
    # in what it cached, and a process in which a second group came after a first has crashed.
    for processes in sizes:
        start_processes(_work, (processes, compute, str(folder)), processes)
    return {number: torch.load(folder / f"results{number}.pt") for number in sizes}


def start_processes(work: Callable[..., None], arguments: tuple[Any, ...], number: int) -> None:
    """Run `work(rank, *arguments)` in processes, which are forked from one that imports torch once.

    That one computes nothing: the processes have a torch as if just imported.
    """
    multiprocessing.set_forkserver_preload([__name__, "torch._dynamo", "asdf.training.step"])
    mp.start_processes(work, arguments, nprocs=number, start_method="forkserver")


def _work(rank: int, processes: int, compute: Compute, folder: str) -> None:
    # A crash in a library's own code says where it was called.
    faulthandler.enable()
    torch.set_num_threads(1)
    store = f"file://{folder}/store{processes}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=processes)
    world = World(rank, processes, rank, processes, backend="gloo")
    results = compute(world)
    if rank == 0:
        torch.save(results, f"{folder}/results{processes}.pt")
    world.barrier()
    dist.destroy_process_group()
