"""Scores the largest batches that a GPU gets: `python -m tests.gpu.measure_scoring CASES`.

CASES are JSON: a list of [network class, architecture, precision, minibatch, samples of a
recording]. The last line printed is JSON as well: of each case the GPU's memory, and what the
weights and the batch took at the most, in bytes.
"""

import json
import os
import sys

import numpy as np
import torch

from asdf.distributed.gpus import gpu_memory
from asdf.networks import build_network
from asdf.scoring.computing import choose_scoring_precision
from asdf.scoring.scorer import Scorer
from tests.gpu.count_training import settings_of


def measure(kind: str, architecture: str, precision: str, minibatch: int, samples: int) -> dict:
    case = {"network.network_class": kind, "front_end.architecture": architecture}
    settings = settings_of({**case, "network.minibatch_size": minibatch})
    device = torch.device("cuda:0")
    with device:
        network = build_network(settings)
    chosen = choose_scoring_precision(precision, device)
    scorer = Scorer(network, settings.network, chosen, gpu_memory(device))
    batch = scorer.plan_batches(np.full(200, samples))[0]
    weights = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    scorer.score_waveforms([np.zeros(batch.samples, np.float32)] * len(batch.trials))
    return {
        "recordings": len(batch.trials),
        "memory": gpu_memory(device),
        "weights": weights,
        "batch": torch.cuda.max_memory_allocated() - weights,
    }


def main() -> None:
    cases = json.loads(sys.argv[1])
    print(json.dumps([measure(*case) for case in cases]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
