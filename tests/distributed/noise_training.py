"""A small network that is trained on noise, with a start from a checkpoint or without."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import fill_network
from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.distributed.world import World
from asdf.settings.sections import Sections, assign
from asdf.training.checkpoints import HostCopies, collect_checkpoint
from asdf.training.step import Step
from asdf.training.steps.training_step import state_of
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList

# Two windows: one of two whole minibatches of 6, and one of 2, of which a third process has none.
SIZE = 14
FEATURES = 6


class Small(nn.Module):
    """With batch norm and dropout, or without either."""

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(FEATURES, 5)
        self.norm = nn.Identity() if plain else nn.BatchNorm1d(5)
        self.dropout = nn.Identity() if plain else nn.Dropout(0.3)
        self.output = nn.Linear(5, 2)

    def forward(self, waveforms_BT):
        embeddings_BE = self.dropout(torch.tanh(self.norm(self.hidden(waveforms_BT))))
        return embeddings_BE, self.output(embeddings_BE)


def make_clips() -> torch.Tensor:
    return torch.randn(SIZE, FEATURES, generator=torch.Generator().manual_seed(1))


def make_network(plain: bool) -> nn.Module:
    torch.manual_seed(0)
    return Small(plain).train()


def steps_of(values: dict[str, Any]) -> Sections:
    """Settings of steps of SGD over windows of 12 utterances, changed by `values`."""
    settings = Sections()
    common = {
        "network.train_clip_size": FEATURES,
        "network.schedule": "constant",
        "network.optimizer_step_interval": 2,
        "network.global_minibatch_size": 6,
        "network.class_weights": (0.3, 0.7),
        "network.initial_learning_rate": 0.1,
        "network.weight_decay": 0.0,
    }
    assign(settings, {**common, **values})
    return settings


def descend(loss: torch.Tensor, parameters: Iterable[nn.Parameter]) -> None:
    """Take a step of SGD in plain torch, as those of `steps_of`."""
    parameters = list(parameters)
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= 0.1 * gradient


def train_on_noise(
    settings: Sections,
    utterances: TrialList,
    world: World,
    plain: bool,
    epochs: int,
    start: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train up to n epochs, with SGD if plain, else Adam; return the checkpoint and the losses."""
    if not plain:
        settings.network.optimizer = "adam"
        settings.network.initial_learning_rate = 0.01
    network = make_network(plain)
    if world.size > 1:
        network = synchronise_batch_norm(network)
    return train_epochs(Step(network, utterances, settings, world), make_clips(), epochs, start)


def train_epochs(
    step: Step, clips: torch.Tensor, epochs: int, start: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Train up to n epochs; return the main rank's checkpoint, and the losses."""
    world, settings, progress = step.world, step.settings, Progress()
    if start is not None:
        checkpoint = NetworkFile.from_content(copy.deepcopy(start), Path("start"))
        fill_network(step.network, checkpoint)
        step.load_state(checkpoint)
        progress = Progress.from_state(start["progress"])
    minibatch = minibatch_per_process(settings.network, world.size)
    interval = settings.network.optimizer_step_interval
    plan = TrainingPlan(len(clips), minibatch, interval, world.size, world.rank, synchronised=True)
    losses = []
    for epoch in range(progress.epochs + 1, epochs + 1):
        progress.begin_epoch()
        for window in plan.windows(epoch):
            local = (Batch(clips[share.utterances]) for share in window.shares)
            step.take(window, local, progress, [])
        losses.append(progress.loss_sum)
        progress.epochs = epoch
    world.broadcast_buffers(step.network)
    update = step.update
    parts = (step.network, update.optimiser, update.scaler, progress, settings)
    if not world.is_main:
        return {"losses": losses}
    saved = collect_checkpoint(*parts, HostCopies(), update.average)
    saved.step_state = state_of(step.method)
    return {**copy.deepcopy(saved.content()), "losses": losses}


def train_and_resume(world: World, train: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Train one epoch, two, and the second one from the first one's checkpoint."""
    one = train(epochs=1)
    start = [one if world.is_main else None]
    if world.size > 1:
        dist.broadcast_object_list(start)
    return {"one": one, "whole": train(epochs=2), "resumed": train(epochs=2, start=start[0])}


def check_resumed(result: dict[str, Any], *further: str) -> None:
    """The resumed training is the uninterrupted one, to the last bit."""
    whole, resumed = result["whole"], result["resumed"]
    for key in ("model_state_dict", "optimizer_state_dict", *further):
        torch.testing.assert_close(resumed[key], whole[key], rtol=0, atol=0)
    assert resumed["progress"] == whole["progress"]
    assert resumed["losses"] == whole["losses"][1:]
