"""Counts bytes that a step moves: `python -m tests.gpu.count_bytes CASES`, as `count_steps`.

The last line printed is JSON: for each case the bytes of one step, on the main rank.
"""

import torch

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.training.training_progress import Progress
from tests.gpu.count_training import make_case
from tests.gpu.moved_bytes import MovedBytes
from tests.gpu.on_processes import print_results

# Moments of the optimiser are made in the first.
FIRST_STEPS = 2


def count(case: dict[str, object], world: World) -> int:
    """Return the bytes of a step."""
    step = make_case(case, world)
    network = step.settings.network
    plan = TrainingPlan(
        len(step.utterances), network.minibatch_size, 1, world.size, world.rank, synchronised=True
    )
    windows = plan.windows(1)
    clips = Batch(torch.randn(network.minibatch_size, network.train_clip_size, device=world.device))
    progress = Progress()
    for _ in range(FIRST_STEPS):
        step.take(next(windows), iter([clips]), progress, [])
    with MovedBytes() as moved:
        step.take(next(windows), iter([clips]), progress, [])
    return moved.total


if __name__ == "__main__":
    print_results(count)
