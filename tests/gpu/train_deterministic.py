"""Takes steps with `computing.deterministic`: `python -m tests.gpu.train_deterministic CASES`.

CASES are as in `count_training`. The last line printed is JSON: for each case the flags in the run
and after it, and what torch refused, '' for nothing.
"""

import json
import os
import sys

import numpy as np
import torch
from torch import Tensor
from torch.backends import cuda, cudnn
from torch.nn.parallel import DistributedDataParallel

from asdf.audio.rawboost import draw
from asdf.audio.rawboost_batch import prepare
from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.determinism import WORKSPACE, workspace
from asdf.distributed.world import World, open_world
from asdf.settings.sections import RawBoost, Sections
from asdf.training.training_progress import Progress
from tests.gpu.count_training import make_step, settings_of

STEPS = 2


def read_flags() -> dict[str, object]:
    return {
        "strict": torch.are_deterministic_algorithms_enabled(),
        "warns": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn": cudnn.deterministic,
        "benchmark": cudnn.benchmark,
        "workspace": os.environ.get(WORKSPACE),
        "tf32": cuda.matmul.allow_tf32,
    }


def boosted(clip_BT: Tensor, settings: RawBoost) -> Tensor:
    random = np.random.default_rng(0)
    draws = [draw(clip_BT.shape[1], settings, random) for _ in clip_BT]
    return prepare(clip_BT.cpu(), draws, settings).to(clip_BT.device).boosted()


def train(settings: Sections, world: World) -> list[int]:
    """Whether buckets of gradients had their last layout at each step; [] for one process."""
    minibatch = settings.network.minibatch_size
    size = STEPS * minibatch * world.size
    step, progress = make_step(settings, world, size), Progress()
    plan = TrainingPlan(size, minibatch, 1, world.size, world.rank, synchronised=True)
    clip = torch.randn(minibatch, settings.network.train_clip_size, device=world.device)
    if settings.rawboost.on_device:
        clip = boosted(clip, settings.rawboost)
    laid_out = []
    for window in plan.windows(1):
        step.take(window, iter([Batch(clip)]), progress, [])
        if isinstance(step._parts.eager.model, DistributedDataParallel):
            laid_out.append(step._parts.eager.model._get_ddp_logging_data()["has_rebuilt_buckets"])
    return laid_out


def take_steps(case: dict[str, object]) -> dict[str, object]:
    settings = settings_of({"computing.deterministic": True, "computing.tf32": True, **case})
    refused, laid_out = "", []
    with open_world(settings.computing) as world:
        within = read_flags()
        try:
            laid_out = train(settings, world)
        except RuntimeError as error:
            refused = str(error)
        main = world.is_main
    flags = {"within": within, "after": read_flags(), "refused": refused, "main": main}
    return {**flags, "laid_out": laid_out}


def main() -> None:
    cudnn.benchmark = True
    # As a recipe does before its first run.
    with workspace(True):
        results = [take_steps(case) for case in json.loads(sys.argv[1])]
    if results[0]["main"]:
        print(json.dumps([read_flags(), results]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
