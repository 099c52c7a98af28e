"""Says how a process of a run uses its machine: `python -m tests.gpu.describe_process CORES`.

CORES are JSON: numbers of cores that the process is made to have, one after the other. The last
line printed is JSON.
"""

import json
import os
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

import torch

from asdf.data import loaders
from asdf.distributed import world as worlds
from asdf.distributed.devices import visible_gpus
from asdf.settings.sections import Computing
from asdf.training.gradients import choose_precision

SHOWN = ("0,1,2,3", "2", "3,1", "", "-1", "MIG-6f3e1b1c")


def count_gpus(shown: str, root: Path) -> list[int]:
    """How many GPUs torch counts, and how many ASDF does without torch, by CUDA_VISIBLE_DEVICES."""
    os.environ["CUDA_VISIBLE_DEVICES"] = shown
    return [torch.cuda.device_count(), visible_gpus(root)]


def count_what_is_shown() -> dict[str, list[int]]:
    """On a machine with four; each in a separate process, since torch counts once."""
    with (
        tempfile.TemporaryDirectory() as folder,
        get_context("fork").Pool(1, maxtasksperchild=1) as pool,
    ):
        root = Path(folder)
        for number in range(4):
            (root / f"proc/driver/nvidia/gpus/0000:0{number}:00.0").mkdir(parents=True)
        return {shown: pool.apply(count_gpus, (shown, root)) for shown in SHOWN}


def describe(cores: int) -> dict[str, object]:
    """What a run takes of n cores, and of the GPU."""
    loaders.usable_cores = worlds.usable_cores = lambda: cores
    computing = Computing()
    with worlds.open_world(computing) as world:
        loader = loaders.BatchLoader([], computing.network_dataloader_workers, world)
        precision = choose_precision(computing.precision, world.device)
    return {
        "threads": torch.get_num_threads(),
        "workers": loader.workers,
        "precision": precision.reason,
    }


def main() -> None:
    counts = count_what_is_shown()
    by_cores = [describe(cores) for cores in json.loads(sys.argv[1])]
    print(json.dumps({"counts": counts, "by_cores": by_cores}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
