"""Says how a process of a run uses its machine: `python -m tests.gpu.describe_process CORES`.

CORES are those that the process is made to have. The last line printed is JSON.
"""

import json
import os
import sys

import torch

from asdf.data import loaders
from asdf.distributed import world as worlds
from asdf.settings.sections import Computing
from asdf.training.precision import choose_precision


def main() -> None:
    cores = int(sys.argv[1])
    loaders.usable_cores = worlds.usable_cores = lambda: cores
    computing = Computing()
    with worlds.open_world(computing) as world:
        loader = loaders.BatchLoader([], computing.network_dataloader_workers, world)
        precision = choose_precision(computing.precision, world.device)
    described = {
        "threads": torch.get_num_threads(),
        "workers": loader.workers,
        "precision": precision.reason,
    }
    print(json.dumps(described), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
