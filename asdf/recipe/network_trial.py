"""The network in a dry run: its size, the memory of a step on a GPU, and steps on noise.

Invariant: a trial of a user's own code on noise fails with the same messages as training would, in
its first steps or when it resumes from a checkpoint, and nothing is written. With
`front_end.weights` the network is built with them, as in a run; otherwise only with the same
shapes.
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
from torch._subclasses.fake_tensor import FakeTensorMode

from asdf.checkpoint.attached_parts import describe_heads, describe_loss
from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import fill_network
from asdf.data.batches import LENGTHS, Batch
from asdf.data.datasets import ClipFrames
from asdf.data.sampler_orders import longest_clips
from asdf.data.training_plan import TrainingPlan, Window, minibatch_per_process
from asdf.distributed.arithmetic import arithmetic
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.interchange import bundle_architecture
from asdf.networks.build import build_network, find_network_class, self_contained
from asdf.networks.interface import frame_hop, inputs_on_noise, waveform_shape
from asdf.networks.output_check import check_outputs
from asdf.recipe.run_folders import Folders
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import UserErrors
from asdf.settings.front_end_values import BUNDLE
from asdf.settings.sections import Sections
from asdf.training.graphs import obstacle_to_graphs
from asdf.training.losses.loss_building import (
    build_loss,
    find_loss_class,
    list_of_two,
    try_in_training,
)
from asdf.training.optimisers import build_optimiser, optimiser_state
from asdf.training.step import Step
from asdf.training.steps.training_step import SETTING, state_of
from asdf.training.task import find_tasks
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList

# Larger networks are not computed on a CPU: a dry run should take seconds, also on a login node.
_MAX_PARAMETERS = 50_000_000
_MINIBATCH = 2
_FAILED = "a training step on noise, which a dry run tries, failed"
_LEVEL = 0.01
_ONE_PASS = class_path_of(SETTING, "plain")


def describe_network(
    settings: Sections, folders: Folders, processes: int, utterances: TrialList | None
) -> list[str]:
    """Describe the network that is trained, after trying the user's own classes on noise.

    Args:
        utterances: Training list; None if it is unknown.

    Raises:
        UsageError: `network.initial_network` differs from the network in the settings.
        AsdfError: the weights of `front_end.weights` or an initial network cannot be read or do not
            fit; the network, the loss or a training step fails on noise; or a step does not fit
            into the GPU's memory.
    """
    weights = settings.front_end.weights or settings.network.initial_network
    try:
        find_network_class(settings.network.network_class, folders.recipe)
    except AsdfError as error:  # which the checks of classes report
        return [f"not known: {error}"]
    # A dry run downloads nothing.
    download = folders.describe_download(weights)
    if download:
        return [f"not known: not all of the weights are in the hub's cache; {download}"]
    network, architecture = _build(settings, folders)
    # Its weights are random in what follows.
    front_end = replace(settings.front_end, architecture=architecture, weights=None)
    tried = replace(settings, front_end=front_end)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    size = sum(parameter.nbytes for parameter in network.parameters())
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    trained = sum(parameter.numel() for parameter in learning)
    graphs = _describe_graphs(settings, folders, processes, network)
    del network, learning
    # Gradients and moments are float32, as are trained parameters.
    moments = 4 * trained * _moments_per_parameter(settings, folders)
    text = f"moments of {settings.network.optimizer}"
    if settings.network.ema_decay is not None:
        text += " and averages of weights"
    lines = [
        f"{parameters:,} parameters, {trained:,} of them trained",
        f"weights {_in_gibibytes(size)}, gradients {_in_gibibytes(4 * trained)}, {text} "
        f"{_in_gibibytes(moments)}",
        *graphs,
    ]
    # Large networks of ASDF are replaced by small ones; large ones of the user's are not tried.
    is_large, is_own = parameters > _MAX_PARAMETERS, _names_own_code(settings)
    if is_own and not is_large:
        _try_network(tried, folders.recipe)
    method = class_path_of("network.training_step", settings.network.training_step)
    optimiser = class_path_of("network.optimizer", settings.network.optimizer)
    steps_are_ours = is_ours(method) and (is_ours(optimiser) or optimiser.startswith("torch."))
    is_padded = settings.lengths.minibatch_s is not None
    if (not steps_are_ours or is_padded) and not (is_own and is_large):
        small = replace(front_end, architecture="tiny") if is_large else front_end
        _try_training(replace(tried, front_end=small), folders.recipe, utterances)
    if utterances is None or not settings.computing.use_gpu or not torch.cuda.is_available():
        return lines
    return [*lines, _measure_step(tried, folders.recipe, utterances, processes)]


def _describe_graphs(
    settings: Sections, folders: Folders, processes: int, network: nn.Module
) -> list[str]:
    """Return a line on the CUDA graphs of a run that may have a GPU."""
    if not settings.computing.use_gpu:
        return []
    method = class_path_of(SETTING, settings.network.training_step)
    loss, once = find_loss_class(settings, folders.recipe), method == _ONE_PASS
    obstacle = obstacle_to_graphs(network, settings, processes, loss, once)
    how = "captured as CUDA graphs if possible"
    if obstacle:
        how = f"launched without CUDA graphs: {obstacle}"
    return [f"on a GPU, the passes of a step are {how}"]


def _build(settings: Sections, folders: Folders) -> tuple[nn.Module, str]:
    """Return the network, without values if no weights are read, and its architecture."""
    architecture = settings.front_end.architecture
    weights = settings.front_end.weights or settings.network.initial_network
    if weights is not None and weights.startswith(BUNDLE):
        architecture = bundle_architecture(weights.partition(":")[2]).to_text()
    elif weights is not None:
        network = folders.build_network(settings)
        return network, self_contained(settings.front_end, network).architecture
    front_end = replace(settings.front_end, architecture=architecture, weights=None)
    bare = replace(settings, front_end=front_end)
    with torch.random.fork_rng(devices=[]):
        try:
            with FakeTensorMode():
                return build_network(bare, folders.recipe), architecture
        except AsdfError:
            # A constructor that reads values of tensors, or one that fails in a run as well.
            return build_network(bare, folders.recipe), architecture


def _moments_per_parameter(settings: Sections, folders: Folders) -> int:
    """Return how many numbers the optimiser holds for each, with those of an average."""
    with torch.random.fork_rng(devices=[]):
        probe = nn.Linear(3, 4, bias=False)
    optimiser = build_optimiser(probe, settings, folders.recipe)
    probe.weight.grad = torch.ones_like(probe.weight)
    optimiser.step()
    moments = optimiser.state[probe.weight].values()
    shapes = [value.shape for value in moments if isinstance(value, torch.Tensor)]
    return shapes.count(probe.weight.shape) + int(settings.network.ema_decay is not None)


def _names_own_code(settings: Sections) -> bool:
    """Whether the network, a part of it, the loss or a head is a class of the user's own."""
    values = {
        "network.network_class": settings.network.network_class,
        "front_end.front_end_class": settings.front_end.front_end_class,
        "back_end.back_end_class": settings.back_end.back_end_class,
        "network.loss": settings.network.loss,
    }
    if settings.source.column is not None:
        values["source.head"] = settings.source.head
    named = [class_path_of(name, value) for name, value in values.items() if value is not None]
    named += settings.network.tasks
    return not all(is_ours(class_path) for class_path in named)


def _try_network(settings: Sections, folder: Path) -> None:
    """Build the network; run it, the loss and the heads of tasks on noise, and check the results.

    Raises:
        AsdfError: as `build_network`, `check_outputs`, `build_loss` and `Task.try_on_noise`.
    """
    with torch.random.fork_rng(devices=[]):
        network = build_network(settings, folder)
        check_outputs(network, settings.network, torch.device("cpu"))
        utterances = list_of_two(find_loss_class(settings, folder))
        loss = build_loss(network, utterances, settings, folder)
        try_in_training(network, loss, settings.network)
        find_tasks(settings, folder).requested().try_on_noise(network)


def _in_gibibytes(count: int) -> str:
    """Format a number of bytes: '3.1 GiB', or in MiB if that is more informative."""
    if count >= 2**30 / 10:
        return f"{count / 2**30:.1f} GiB"
    return f"{count / 2**20:.1f} MiB"


def _try_training(settings: Sections, folder: Path, utterances: TrialList | None) -> None:
    """Take two training steps on noise, and again with a checkpoint between; compare weights.

    Raises:
        UsageError: a class does not fit the settings, a checkpoint cannot hold its state, or
            training from its saved state differs from training without a stop.
        AsdfError: training fails.
    """
    # Two minibatches per step, to check their accumulation.
    tried = _simplified(settings, minibatches=2)
    if utterances is None:
        utterances = list_of_two(find_loss_class(tried, folder))
    with torch.random.fork_rng(devices=[]), UserErrors(_FAILED):
        whole = _train(tried, folder, utterances, steps=2)
        first = _train(tried, folder, utterances, steps=1)
        written = io.BytesIO()
        try:
            torch.save(first.content(), written)
            written.seek(0)
            content: dict[str, Any] = torch.load(written, weights_only=True)
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(
                f"{SETTING}: a checkpoint cannot hold what state() returns, which must be tensors, "
                f"numbers, strings, lists and dictionaries ({type(error).__name__}: {reason})."
            ) from error
        start = NetworkFile.from_content(content, Path("checkpoint"))
        resumed = _train(tried, folder, utterances, steps=2, start=start)
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


def _measure_step(settings: Sections, folder: Path, utterances: TrialList, processes: int) -> str:
    """Take steps on noise on a GPU, each with as much at once as a process of the run.

    The first one creates the optimiser's moments, so the second one has the peak of training.

    Raises:
        UsageError: the number of processes does not divide the global minibatch.
        AsdfError: a step does not fit into the GPU's memory, or fails.
    """
    gpus = settings.computing.gpu_ids
    device = torch.device("cuda", gpus[0] if gpus else 0)
    # More minibatches do not increase the peak.
    tried = _simplified(settings, min(2, settings.network.optimizer_step_interval))
    minibatch = minibatch_per_process(settings.network, processes)
    if settings.lengths.minibatch_s is not None:
        minibatch, tried.network.train_clip_size = longest_clips(settings)
    # Nothing may have used the GPU yet, and torch counts its memory from its start on.
    torch.cuda.init()
    torch.cuda.reset_peak_memory_stats(device)
    kernels = arithmetic(settings.computing.tf32)  # those of a run
    with kernels, torch.random.fork_rng([device]), UserErrors(_FAILED):
        _train(tried, folder, utterances, steps=2, minibatch=minibatch, world=World(device=device))
    held = torch.cuda.max_memory_allocated(device)
    reserved = torch.cuda.max_memory_reserved(device)
    gpu = torch.cuda.get_device_properties(device)
    return (
        f"a step of training on {gpu.name} ({device}): {_in_gibibytes(held)} at its peak, for "
        f"which torch reserved {_in_gibibytes(reserved)} of {_in_gibibytes(gpu.total_memory)}"
    )


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
    folder: Path,
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
        optimiser_state=optimiser_state(step.update.optimiser),
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
