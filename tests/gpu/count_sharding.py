"""Divide a network over null GPUs and print its cost: `python -m tests.gpu.count_sharding CASES`.

CASES are JSON: a list of dictionaries of settings. The last line printed is JSON as well: for each
case the waits, operations and collectives of a step, and memory of the allocator in bytes, on the
main rank.
"""

import numpy as np
import torch

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.distributed.world import World
from asdf.networks import build_network, summary
from asdf.settings.sections import Sections
from asdf.training.checkpoints import HostCopies, collect_checkpoint
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList
from tests.gpu.count_training import settings_of
from tests.gpu.null_gpu.watch import Watch
from tests.gpu.on_processes import print_results

STEPS = 4


def make_step(settings: Sections, world: World) -> tuple[Step, int]:
    """A step whose network comes from the CPU, as a run builds it; and the network's bytes."""
    size = settings.network.minibatch_size * world.size * STEPS
    labels = np.arange(size, dtype=np.int8) % 2
    utterances = TrialList([f"{i}.wav" for i in range(size)], labels, name="counted")
    network = synchronise_batch_norm(build_network(settings).train())
    weights = 4 * summary(network).total
    return Step(network, utterances, settings, world), weights


def peak_since() -> int:
    """The highest number of bytes since the last call."""
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak


def count(case: dict[str, object], world: World) -> dict[str, object]:
    settings = settings_of({**case, "computing.shard_network": True})
    minibatch = settings.network.minibatch_size
    peak_since()
    step, weights = make_step(settings, world)
    measured: dict[str, object] = {"weights": weights, "building": peak_since()}
    measured["built"] = torch.cuda.memory_allocated()
    plan = TrainingPlan(len(step.labels), minibatch, 1, world.size, world.rank, synchronised=True)
    clip = Batch(torch.randn(minibatch, settings.network.train_clip_size, device=world.device))
    progress, windows = Progress(), plan.windows(1)
    for _ in range(STEPS - 1):
        step.take(next(windows), iter([clip]), progress, [])
    peak_since()
    with Watch() as seen:
        step.take(next(windows), iter([clip]), progress, [])
    measured |= {"waits": seen.waits, "step": peak_since(), "operations": seen.operations()}
    measured["collectives"] = seen.counts.get("collectives", 0)
    measured["between"] = torch.cuda.memory_allocated()
    with step.whole_network():
        measured["whole"] = torch.cuda.memory_allocated()
    measured["after whole"] = torch.cuda.memory_allocated()
    peak_since()
    parts = (step.network, step.optimiser, step.scaler, progress, settings)
    collect_checkpoint(*parts, world, HostCopies())
    measured["collecting"] = peak_since()
    return measured


if __name__ == "__main__":
    print_results(count)
