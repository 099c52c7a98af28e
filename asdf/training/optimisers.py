"""The optimiser of the settings: one with a short name, or any class of torch or of the user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from asdf.errors import UsageError
from asdf.runs.log import LOG
from asdf.settings.sections import Network
from asdf.training.optimiser_class import check_optimiser, find_optimiser
from asdf.training.optimiser_state import begin_momentum
from asdf.training.parameter_groups import Group, group_parameters
from asdf.training.training_sections import TrainingSections

# A function of the groups, the settings, and whether one kernel updates all parameters (None leaves
# this to torch).
BuildOptimiser = Callable[[list[Group], Network, bool | None], torch.optim.Optimizer]


def _build_adam(
    kind: type[torch.optim.Adam],
    groups: list[Group],
    training: Network,
    fused: bool | None,
) -> torch.optim.Optimizer:
    rate = training.initial_learning_rate
    return kind(groups, lr=rate, betas=training.adam_betas, fused=fused)


def _build_sgd(groups: list[Group], training: Network, fused: bool | None) -> torch.optim.Optimizer:
    rate = training.initial_learning_rate
    optimiser = torch.optim.SGD(groups, lr=rate, momentum=training.momentum, fused=fused)
    begin_momentum(optimiser)
    return optimiser


# The short names of `network.optimizer`, whose options are settings of the section `network`.
OPTIMISERS: dict[str, BuildOptimiser] = {
    "adam": partial(_build_adam, torch.optim.Adam),
    "adamw": partial(_build_adam, torch.optim.AdamW),
    "sgd": _build_sgd,
}


_FUSED_ON_CPU = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)


def check_named_optimiser(settings: TrainingSections, folder: Path | None) -> None:
    """Find the class that `network.optimizer` names, if it is not a short name, and test it.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the class does not exist, or cannot be used for training here.
        AsdfError: importing its module fails.
    """
    named = find_optimiser(settings, folder)
    if named is not None:
        check_optimiser(named)


def build_optimiser(
    network: nn.Module,
    settings: TrainingSections,
    folder: Path | None = None,
) -> torch.optim.Optimizer:
    """Return the optimiser of `settings.network` for the trained parameters.

    The front end may have its own learning rate. `weight_decay_skiplist` excludes parameters from
    weight decay by a part of their name or of their module's class name.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: no parameter is trained, or the optimiser's class is not suitable.
        AsdfError: importing the module of the class fails.
    """
    groups = group_parameters(network, settings)
    if not groups:
        raise UsageError(
            "no parameter of the network is trained: is front_end.frozen on with nothing behind "
            "the front end?"
        )
    trained = [parameter for group in groups for parameter in group["params"]]
    named = find_optimiser(settings, folder)
    if named is None:
        fused = _choose_fused(trained, on_cpu=True)
        return OPTIMISERS[settings.network.optimizer](groups, settings.network, fused)
    fused = _choose_fused(trained, on_cpu=named.kind in _FUSED_ON_CPU)
    check_optimiser(named)
    if settings.network.weight_decay and not named.takes("weight_decay"):
        LOG.warning("%s takes no weight decay: network.weight_decay has no effect", named.path)
    return named.build(groups, fused)


def _choose_fused(trained: list[nn.Parameter], on_cpu: bool) -> bool | None:
    """Return whether one kernel updates all parameters; None leaves this to torch.

    By default, torch runs a dozen operations per parameter on a CPU.

    Args:
        on_cpu: Whether the optimiser has such a kernel for the CPU.
    """
    if all(parameter.is_cuda and parameter.is_floating_point() for parameter in trained):
        return True
    for parameter in trained:
        is_on_cpu = parameter.device.type == "cpu"
        on_cpu = on_cpu and is_on_cpu and parameter.dtype is torch.float32
    return True if on_cpu else None
