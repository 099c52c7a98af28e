"""Print the allocator's peaks in training and scoring: `python -m tests.gpu.measure_memory CASES`.

CASES are those of `count_training`; the last line printed is JSON: for each case the bytes of a
training step, on the main rank, and of the batches that are scored.
"""

import gc

import torch

from asdf.distributed.world import World
from asdf.memory.case import largest_batches
from asdf.networks import build_network
from asdf.scoring.scorer import scored_length_of
from tests.gpu.count_training import count_without_saving, settings_of
from tests.gpu.on_processes import print_results


def measure(case: dict[str, object], world: World) -> dict[str, object]:
    """What the cases before have left is not to count."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    training = count_without_saving(case, world)["peak_bytes"]
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    return {"training": training, "scoring": _score(case) if world.size == 1 else []}


def _score(case: dict[str, object]) -> list[int]:
    settings, peaks = settings_of(case), []
    with torch.device("cuda"):
        network = build_network(settings).eval().to("cuda")
    length = scored_length_of(network, settings.network)
    for utterances, samples in largest_batches(settings.network, length):
        with torch.inference_mode():
            network(torch.zeros(utterances, samples, device="cuda"))
            torch.cuda.reset_peak_memory_stats()
            network(torch.zeros(utterances, samples, device="cuda"))
        peaks.append(torch.cuda.max_memory_allocated())
    return peaks


if __name__ == "__main__":
    print_results(measure)
