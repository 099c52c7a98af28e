"""The network in a dry run: whether it works, its size, and the memory of a step on a GPU.

Invariant: a trial of a user's own code on noise fails with the same messages as stage 1 would, and
nothing is written. With `front_end.weights` the network is built with them, as in a run; otherwise
only with the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.recipe.run_folders import Folders
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import is_ours, look_for_class
from asdf.settings.front_end_values import BUNDLE
from asdf.settings.sections import Sections

if TYPE_CHECKING:
    from torch import nn

    from asdf.trials.trial_list import TrialList

# Larger networks are not computed on a CPU: a dry run should take seconds, also on a login node.
_MAX_PARAMETERS = 50_000_000
_TINY = "tiny"
FindList = Callable[[], "TrialList | None"]


def describe_network(
    settings: Sections, folders: Folders, processes: int, utterances: FindList
) -> list[str]:
    """Describe the network that is trained, after trying the user's own classes on noise.

    Args:
        utterances: Function that returns the training list, or None if it is unknown.

    Raises:
        UsageError: `network.initial_network` differs from the network in the settings.
        AsdfError: the weights of `front_end.weights` or an initial network cannot be read or do not
            fit; the network, the loss or a training step fails on noise; or a step does not fit
            into the GPU's memory.
    """
    weights = settings.front_end.weights or settings.network.initial_network
    try:
        look_for_class(settings.network.network_class, folders.recipe, "network.network_class")
        # A dry run downloads nothing.
        download = folders.describe_download(weights)
    except AsdfError as error:
        if weights:
            raise
        return [f"not known: {error}"]
    if download:
        return [f"not known: not all of the weights are in the hub's cache; {download}"]
    network, architecture = _build(settings, folders)
    # Its weights are random in what follows.
    front_end = replace(settings.front_end, architecture=architecture, weights=None)
    tried = replace(settings, front_end=front_end)
    lines = _describe_size(network, settings, folders)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    del network
    if _names_own_code(settings) and parameters <= _MAX_PARAMETERS:
        _try_network(tried, folders)
    _try_step(tried, folders, parameters, utterances)
    return [*lines, *_measure_step(tried, folders, processes, utterances)]


def _build(settings: Sections, folders: Folders) -> tuple[nn.Module, str]:
    """Return the network, without values if no weights are read, and its architecture."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from asdf.interchange import bundle_architecture
    from asdf.networks.build import build_network, self_contained

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


def _describe_size(network: nn.Module, settings: Sections, folders: Folders) -> list[str]:
    """Describe the parameters, and the bytes that a process holds for them between two passes."""
    total = trained = size = 0
    for parameter in network.parameters():
        total += parameter.numel()
        size += parameter.nbytes
        if parameter.requires_grad:
            trained += parameter.numel()
    # Gradients and moments are float32, as are trained parameters.
    moments = 4 * trained * _moments_per_parameter(settings, folders)
    text = f"moments of {settings.network.optimizer}"
    if settings.network.ema_decay is not None:
        text += " and averages of weights"
    return [
        f"{total:,} parameters, {trained:,} of them trained",
        f"weights {_in_gibibytes(size)}, gradients {_in_gibibytes(4 * trained)}, {text} "
        f"{_in_gibibytes(moments)}",
    ]


def _moments_per_parameter(settings: Sections, folders: Folders) -> int:
    """Return how many numbers the optimiser holds for each, with those of an average."""
    import torch
    from torch import nn

    from asdf.training.optimisers import build_optimiser

    with torch.random.fork_rng(devices=[]):
        probe = nn.Linear(3, 4, bias=False)
    optimiser = build_optimiser(probe, settings, folders.recipe)
    probe.weight.grad = torch.ones_like(probe.weight)
    optimiser.step()
    moments = optimiser.state[probe.weight].values()
    shapes = [value.shape for value in moments if isinstance(value, torch.Tensor)]
    return shapes.count(probe.weight.shape) + int(settings.network.ema_decay is not None)


def _measure_step(
    settings: Sections, folders: Folders, processes: int, utterances: FindList
) -> list[str]:
    """Take a step of training on noise, as large as in the run, on the GPU if there is one."""
    import torch

    from asdf.recipe.training_trial import take_whole_step

    computing = settings.computing
    listed = utterances()
    if listed is None or not computing.use_gpu or not torch.cuda.is_available():
        return []
    device = torch.device("cuda", computing.gpu_ids[0] if computing.gpu_ids else 0)
    torch.cuda.reset_peak_memory_stats(device)
    take_whole_step(settings, folders.recipe, listed, processes, device)
    held = torch.cuda.max_memory_allocated(device)
    reserved = torch.cuda.max_memory_reserved(device)
    there = torch.cuda.get_device_properties(device)
    return [
        f"a step of training on {there.name} ({device}): {_in_gibibytes(held)} at its peak, for "
        f"which torch reserved {_in_gibibytes(reserved)} of {_in_gibibytes(there.total_memory)}"
    ]


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


def _try_network(settings: Sections, folders: Folders) -> None:
    """Build the network; run it, the loss and the heads of tasks on noise, and check the results.

    Raises:
        AsdfError: as `build_network`, `check_outputs`, `build_loss` and `Task.try_on_noise`.
    """
    import torch

    from asdf.networks.build import build_network
    from asdf.networks.output_check import check_outputs
    from asdf.training.losses.loss_building import (
        build_loss,
        find_loss_class,
        list_of_two,
        try_in_training,
    )
    from asdf.training.task import find_tasks

    folder = folders.recipe
    with torch.random.fork_rng(devices=[]):
        network = build_network(settings, folder)
        check_outputs(network, settings.network, torch.device("cpu"))
        utterances = list_of_two(find_loss_class(settings, folder))
        loss = build_loss(network, utterances, settings, folder)
        try_in_training(network, loss, settings.network)
        find_tasks(settings, folder).requested().try_on_noise(network)


def _try_step(settings: Sections, folders: Folders, parameters: int, utterances: FindList) -> None:
    """Take training steps on noise, if a class is the user's own or minibatches are padded.

    Large networks of ASDF are replaced by small ones; large networks of the user's are not tried.

    Raises:
        AsdfError: as `try_training`.
    """
    method = class_path_of("network.training_step", settings.network.training_step)
    optimiser = class_path_of("network.optimizer", settings.network.optimizer)
    has_own = not is_ours(method) or not (is_ours(optimiser) or optimiser.startswith("torch."))
    if not has_own and settings.lengths.minibatch_s is None:
        return
    if parameters > _MAX_PARAMETERS:
        if _names_own_code(settings):
            return
        settings = replace(settings, front_end=replace(settings.front_end, architecture=_TINY))
    from asdf.recipe.training_trial import try_training

    try_training(settings, folders.recipe, utterances())


def _in_gibibytes(count: int) -> str:
    """Format a number of bytes: '3.1 GiB', or in MiB if that is more informative."""
    if count >= 2**30 / 10:
        return f"{count / 2**30:.1f} GiB"
    return f"{count / 2**20:.1f} MiB"
