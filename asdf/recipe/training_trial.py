"""Training steps on noise in a dry run: of a user's classes, and of the size of the run's.

Invariant: training would fail on whatever this refuses, in its first steps or when it resumes from
a checkpoint. Nothing is written.
"""

from __future__ import annotations

import copy
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from asdf.checkpoint.attached_parts import describe_heads, describe_loss
from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import fill_network
from asdf.data.batches import LENGTHS, Batch
from asdf.data.clip_frames import ClipFrames
from asdf.data.length_groups import longest_clips
from asdf.data.training_plan import TrainingPlan, Window, minibatch_per_process
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.build import build_network
from asdf.networks.interface import frame_hop, inputs_on_noise, waveform_shape
from asdf.settings.class_path import UserErrors
from asdf.settings.sections import Sections
from asdf.training.losses.loss_building import find_loss_class, list_of_two
from asdf.training.optimisers import optimiser_state
from asdf.training.step import Step
from asdf.training.steps.training_step import SETTING, state_of
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList

_MINIBATCH = 2
_FAILED = "a training step on noise, which a dry run tries, failed"
_LEVEL = 0.01


def try_training(settings: Sections, folder: Path | None, utterances: TrialList | None) -> None:
    """Take two training steps on noise, and again with a checkpoint between; compare weights.

    Args:
        folder: Folder of the recipe, where a user's own modules lie.
        utterances: Training list, for its labels and columns; None if unknown.

    Raises:
        UsageError: a class does not fit the settings, or training from its saved state differs from
            training without a stop.
        AsdfError: training fails.
    """
    # Two minibatches per step, to check their accumulation.
    tried = _simplified(settings, minibatches=2)
    if utterances is None:
        utterances = list_of_two(find_loss_class(tried, folder))
    with torch.random.fork_rng(devices=[]), UserErrors(_FAILED):
        whole = _train(tried, folder, utterances, steps=2)
        begun = _train(tried, folder, utterances, steps=1)
        resumed = _train(tried, folder, utterances, steps=2, start=_saved_and_read(begun))
    for name, value in whole.state.items():
        # Compare bits, because NaN should equal itself here.
        if value.numpy().tobytes() != resumed.state[name].numpy().tobytes():
            raise UsageError(
                f"{SETTING} = {tried.network.training_step!r}, network.optimizer = "
                f"{tried.network.optimizer!r}: restored from its saved state, training does not "
                f"continue as without a stop (seen on noise, at the weights {name}). Everything "
                "its steps depend on must be in what state() returns and load_state() loads, and "
                "random numbers must come from the window."
            )


def take_whole_step(
    settings: Sections,
    folder: Path | None,
    utterances: TrialList,
    processes: int,
    device: torch.device,
) -> None:
    """Take steps on noise on a GPU, each with as much at once as a process of the run.

    The first one creates the optimiser's moments, so the second one has the peak of training.

    Raises:
        UsageError: the number of processes does not divide the global minibatch.
        AsdfError: a step does not fit into the GPU's memory, or fails.
    """
    # More minibatches do not increase the peak.
    tried = _simplified(settings, min(2, settings.network.optimizer_step_interval))
    minibatch = minibatch_per_process(settings.network, processes)
    if settings.lengths.minibatch_s is not None:
        minibatch, tried.network.train_clip_size = longest_clips(settings)
    world = World(device=device)
    with torch.random.fork_rng([device]), UserErrors(_FAILED):
        _train(tried, folder, utterances, steps=2, minibatch=minibatch, world=world)


def _simplified(settings: Sections, minibatches: int) -> Sections:
    """Return settings for steps on noise with this number of minibatches."""
    tried = copy.deepcopy(settings)
    # There are no recordings whose features could be cached.
    tried.front_end = replace(tried.front_end, cache_features=False)
    # Neither changes what a step computes, and compiling takes minutes.
    tried.computing = replace(tried.computing, compile=False, cuda_graphs=False)
    tried.network = replace(tried.network, optimizer_step_interval=minibatches)
    return tried


def _train(
    settings: Sections,
    folder: Path | None,
    utterances: TrialList,
    steps: int,
    start: NetworkFile | None = None,
    minibatch: int = _MINIBATCH,
    world: World | None = None,
) -> NetworkFile:
    """Train on noise up to a number of steps; return the checkpoint."""
    world = world or World()
    torch.manual_seed(settings.recipe.seed)
    network = build_network(settings, folder).to(world.device).train()
    hop = frame_hop(network)
    frames = None
    if settings.localisation.enabled and hop is not None:
        lengths = np.full(len(utterances), settings.network.train_clip_size)
        frames = ClipFrames(utterances, lengths, settings, hop)
    step = Step(network, utterances, settings, world, folder=folder, frames=frames)
    progress = Progress()
    if start is not None:
        fill_network(step.network, start)
        step.load_state(start)
        progress = Progress.from_state(start.progress)
    interval = settings.network.optimizer_step_interval
    plan = TrainingPlan(len(utterances), minibatch, interval, seed=settings.recipe.seed)
    order = iter(plan.windows(1))
    # Equal for all three trainings.
    noise = torch.Generator().manual_seed(0)
    for number in range(steps):
        # A list may be shorter than two steps.
        window = next(order, None) or next(iter(plan.windows(1)))
        # Drawn for steps before the checkpoint as well, so that the next ones get the same.
        batches = _noise_batches(window, settings, network, noise)
        if number >= progress.step:
            on_device = [batch.to(world.device) for batch in batches]
            step.take(window, iter(on_device), progress, [])
    heads = describe_heads(step.network)
    return NetworkFile(
        state=step.network.state_dict(),
        loss=describe_loss(step.network),
        sources=heads.pop("sources", None),
        heads=heads or None,
        optimiser_state=optimiser_state(step.optimiser),
        step_state=state_of(step.method),
        progress=progress.state(),
    )


def _noise_batches(
    window: Window, settings: Sections, network: nn.Module, noise: torch.Generator
) -> list[Batch]:
    """Return minibatches of noise for a window, half of it shorter if lengths vary."""
    samples = settings.network.train_clip_size
    batches = []
    for share in window.shares:
        shape = waveform_shape(network, len(share.utterances), samples)
        clips = _LEVEL * torch.randn(shape, generator=noise)
        further = inputs_on_noise(network, clips)
        if settings.lengths.minibatch_s is None:
            batches.append(Batch(clips, further=further))
            continue
        lengths_B = torch.full((len(clips),), samples)
        lengths_B[1::2] -= samples // 4
        padded = torch.where(torch.arange(samples) < lengths_B[:, None], clips, 0.0)
        batches.append(Batch(padded, further={**further, LENGTHS: lengths_B}))
    return batches


def _saved_and_read(file: NetworkFile) -> NetworkFile:
    """Return `file` as a checkpoint restores it.

    Raises:
        UsageError: a checkpoint cannot hold it.
    """
    written = io.BytesIO()
    try:
        torch.save(file.content(), written)
        written.seek(0)
        content: dict[str, Any] = torch.load(written, weights_only=True)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"{SETTING}: a checkpoint cannot hold what state() returns, which must be tensors, "
            f"numbers, strings, lists and dictionaries ({type(error).__name__}: {reason})."
        ) from error
    return NetworkFile.from_content(content, Path("checkpoint"))
