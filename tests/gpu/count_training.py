"""Takes training steps and prints what each case costs: `python -m tests.gpu.count_training CASES`.

CASES are JSON: a list of dictionaries of settings, {'network.network_class':
'asdf.networks.AASIST'}. The last line printed is JSON as well: for each case the waits and the
operations of a step, and those of a save, on the main rank. `steps` as a further word leaves the
save out: a network of a gigabyte is written for longer than it is trained.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.distributed.world import World, open_world
from asdf.networks import build_network
from asdf.runs.layout import Layout, NetworkName
from asdf.settings.sections import Computing, Sections, assign
from asdf.training.callback_group import CallbackGroup
from asdf.training.checkpoints import Saving, read_checkpoint
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList
from tests.gpu.null_gpu.watch import Watch

Case = dict[str, object]


def print_results(measure: Callable[[Case, World], object]) -> None:
    """Measure the command line's cases on every rank, print the main rank's results, and exit."""
    cases = json.loads(sys.argv[1])
    with open_world(Computing()) as world:
        results = [measure(case, world) for case in cases]
        world.barrier()
        if world.is_main:
            print(json.dumps(results), flush=True)
        world.barrier()
    # Threads of NCCL's stand-in would hold the interpreter's end.
    os._exit(0)


# The first steps build what later ones use: optimiser states, CUDA graphs; on several ranks, the
# statistics of DistributedDataParallel, for which it waits.
FIRST_STEPS = {True: 4, False: 12}
COUNTED_STEPS = 2


def settings_of(case: dict[str, object]) -> Sections:
    settings = Sections()
    settings.front_end.architecture = "tiny"
    settings.network.train_clip_size = 64600
    settings.network.optimizer = "adam"
    settings.network.minibatch_size = 2
    # Counted are the operations that a graph would replay.
    settings.computing.cuda_graphs = False
    assign(settings, case)
    return settings


def make_step(settings: Sections, world: World, size: int) -> Step:
    labels = np.arange(size, dtype=np.int8) % 2
    utterances = TrialList([f"{i}.wav" for i in range(size)], labels, name="counted")
    with torch.device(world.device):
        network = build_network(settings).train()
    if world.size > 1:
        network = synchronise_batch_norm(network)
    return Step(network.to(world.device), utterances, settings, world)


def count(case: dict[str, object], world: World) -> dict[str, object]:
    """Return what steps cost, and what a save does."""
    step = make_case(case, world)
    progress = Progress()
    costs = count_steps(step, progress, world)
    if "steps" in sys.argv[2:]:
        return costs
    return {**costs, **count_saving(step, progress, step.settings, world)}


def make_case(case: dict[str, object], world: World) -> Step:
    """Return a step whose epoch has as many windows as steps are taken."""
    settings = settings_of(case)
    network = settings.network
    window = network.minibatch_size * world.size * network.optimizer_step_interval
    return make_step(settings, world, window * (FIRST_STEPS[world.size == 1] + COUNTED_STEPS))


def count_steps(step: Step, progress: Progress, world: World) -> dict[str, object]:
    """Take the first steps and count the others, all of one epoch."""
    settings = step.settings
    minibatch = settings.network.minibatch_size
    plan = TrainingPlan(
        len(step.utterances),
        minibatch,
        settings.network.optimizer_step_interval,
        world.size,
        world.rank,
        synchronised=True,
    )
    windows = plan.windows(1)
    clip = Batch(torch.randn(minibatch, settings.network.train_clip_size, device=world.device))
    for _ in range(FIRST_STEPS[world.size == 1]):
        taken = next(windows)
        step.take(taken, iter([clip] * len(taken.shares)), progress, [])
    torch.cuda.reset_peak_memory_stats()
    with Watch() as seen:
        for taken in windows:
            step.take(taken, iter([clip] * len(taken.shares)), progress, [])
    return {
        "waits": {where: times / COUNTED_STEPS for where, times in seen.waits.items()},
        "operations": seen.operations() / COUNTED_STEPS,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "collectives": seen.counts.get("collectives", 0) / COUNTED_STEPS,
        "replays": seen.counts.get("replays", 0) / COUNTED_STEPS,
    }


def count_saving(
    step: Step, progress: Progress, settings: Sections, world: World
) -> dict[str, object]:
    """The waits of the second save of a run, whose pinned buffers are those of the first."""
    with TemporaryDirectory() as folder:
        layout = Layout(Path(folder))
        second = NetworkName("second")
        saving = Saving(step, layout, CallbackGroup([], [], world))
        with saving.running():
            saving.save(NetworkName("first"), progress)
            saving.settle()
            with Watch() as seen:
                saving.save(second, progress)
            saving.settle()
        saved = layout.network_file(second)
        is_same = not world.is_main or holds_weights(read_checkpoint(saved), step.network)
    return {"save_waits": dict(seen.waits), "saved_weights": is_same}


def holds_weights(checkpoint: NetworkFile, network: nn.Module) -> bool:
    """Whether a file's weights are the network's, bit for bit (the null GPU's may be NaN).

    Where it has averages as well, those before averaging.
    """
    held = {**checkpoint.state, **(checkpoint.unaveraged_state or {})}
    return all(
        weights.numpy().tobytes() == network.state_dict()[name].cpu().numpy().tobytes()
        for name, weights in held.items()
    )


if __name__ == "__main__":
    print_results(count)
