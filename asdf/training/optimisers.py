"""The optimiser, its parameter groups, and how it goes on from a checkpoint.

Each group has, next to torch's options, its rate before any schedule as `base_lr`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from asdf.distributed.sharding import divided_like, is_part
from asdf.errors import AsdfError, UsageError
from asdf.networks import front_end_parameters
from asdf.settings.sections import Network, Sections

# A parameter group with its options, as torch's optimisers take them.
Group = dict[str, Any]
# Takes the groups, the settings, and whether one kernel updates all parameters (None: torch
# decides).
BuildOptimiser = Callable[[list[Group], Network, bool | None], torch.optim.Optimizer]


def _build_adam(
    groups: list[Group], training: Network, fused: bool | None
) -> torch.optim.Optimizer:
    rate = training.initial_learning_rate
    return torch.optim.Adam(groups, lr=rate, betas=training.adam_betas, fused=fused)


def _build_adamw(
    groups: list[Group], training: Network, fused: bool | None
) -> torch.optim.Optimizer:
    rate = training.initial_learning_rate
    return torch.optim.AdamW(groups, lr=rate, betas=training.adam_betas, fused=fused)


def _build_sgd(groups: list[Group], training: Network, fused: bool | None) -> torch.optim.Optimizer:
    rate = training.initial_learning_rate
    optimiser = torch.optim.SGD(groups, lr=rate, momentum=training.momentum, fused=fused)
    _begin_momentum(optimiser)
    return optimiser


# The values of `network.optimizer`.
OPTIMISERS: dict[str, BuildOptimiser] = {
    "adam": _build_adam,
    "adamw": _build_adamw,
    "sgd": _build_sgd,
}


@dataclass(frozen=True)
class _OwnedParameter:
    """A parameter, its full name, and the class of the module that owns it."""

    name: str
    parameter: nn.Parameter
    owner: str

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Return whether the name or the owner contains one of `parts`, in upper or lower case."""
        name = self.name.lower()
        owner = self.owner.lower()
        return any(part.lower() in name or part.lower() in owner for part in parts)


class _GroupKey(NamedTuple):
    """What the parameters of a group have in common; groups are sorted by it."""

    is_front_end: bool
    decays: bool


def build_optimiser(network: nn.Module, settings: Sections) -> torch.optim.Optimizer:
    """Return the optimiser of `settings.network` over the parameters that are trained.

    The front end may have a learning rate of its own. `weight_decay_skiplist` excludes parameters
    from the decay by a part of their name or of their module's class name.

    Raises:
        UsageError: no parameter is trained.
    """
    groups = _group_parameters(network, settings)
    if not groups:
        raise UsageError(
            "no parameter of the network is trained: is front_end.frozen on with nothing behind "
            "the front end?"
        )
    trained = [parameter for group in groups for parameter in group["params"]]
    can_be_fused = all(parameter.is_cuda and parameter.is_floating_point() for parameter in trained)
    # One kernel updates all parameters. On the CPU the choice is torch's, which takes them one by
    # one.
    fused = True if can_be_fused else None
    return OPTIMISERS[settings.network.optimizer](groups, settings.network, fused)


def _group_parameters(network: nn.Module, settings: Sections) -> list[Group]:
    """Return the trained parameters, grouped by their learning rate and weight decay."""
    training = settings.network
    front_end = {id(parameter) for parameter in front_end_parameters(network)}
    members: dict[_GroupKey, list[nn.Parameter]] = {}
    for owned in _owned_parameters(network):
        if not owned.parameter.requires_grad:
            continue
        decays = not owned.matches(training.weight_decay_skiplist)
        key = _GroupKey(id(owned.parameter) in front_end, decays)
        members.setdefault(key, []).append(owned.parameter)
    groups = []
    # The order is part of a checkpoint: its moments are numbered along it.
    for key, parameters in sorted(members.items()):
        rate = training.initial_learning_rate
        if key.is_front_end and settings.front_end.learning_rate is not None:
            rate = settings.front_end.learning_rate
        decay = training.weight_decay if key.decays else 0.0
        groups.append({"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay})
    return groups


def _owned_parameters(network: nn.Module) -> Iterator[_OwnedParameter]:
    """Yield each parameter once, with the first module that owns it."""
    # Modules may share one. torch's optimisers refuse a parameter that is in two groups.
    seen: set[int] = set()
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                full_name = f"{prefix}.{name}" if prefix else name
                yield _OwnedParameter(full_name, parameter, type(module).__name__)


def load_optimiser_state(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load the moments of a checkpoint; rates, decay and the like stay those of the settings.

    Raises:
        AsdfError: the state is of another optimiser, or of other groups of parameters; `optimiser`
            is unchanged.
    """
    if _shapes_of(optimiser.param_groups) != _shapes_of(state["param_groups"]):
        raise AsdfError(
            "the checkpoint was trained with another optimiser, or other parameters were trained "
            "or decayed. Set network.optimizer, network.weight_decay_skiplist and front_end.frozen "
            "to what they were (settings.py in the system folder), or give this run another "
            "paths.system_folder."
        )
    # Torch looks at the options to place the moments: where Adam's count of steps lives depends on
    # whether the optimiser is fused, which the checkpoint's need not have been.
    groups = []
    for group, saved in zip(optimiser.param_groups, state["param_groups"], strict=True):
        groups.append({**group, "params": saved["params"]})
    moments = _divided_moments(optimiser, state)
    optimiser.load_state_dict({**state, "state": moments, "param_groups": groups})
    _copy_mapped_moments(optimiser)
    if isinstance(optimiser, torch.optim.SGD):
        _begin_momentum(optimiser)


class _GroupShape(NamedTuple):
    """What a group of a checkpoint must share with that of an optimiser."""

    has_betas: bool
    parameters: int


def _shapes_of(groups: list[Group]) -> list[_GroupShape]:
    # Adam and AdamW have the same moments, and options `betas`, which SGD lacks.
    return [_GroupShape("betas" in group, len(group["params"])) for group in groups]


def _divided_moments(
    optimiser: torch.optim.Optimizer, state: dict[str, Any]
) -> dict[int, dict[str, Any]]:
    """Return the moments in `state`, divided over the processes as their parameters are."""
    local = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    parameters = dict(zip(numbers, local, strict=True))
    divided: dict[int, dict[str, Any]] = {}
    for number, moments in state["state"].items():
        parameter = parameters[number]
        divided[number] = {name: divided_like(parameter, value) for name, value in moments.items()}
    return divided


def _copy_mapped_moments(optimiser: torch.optim.Optimizer) -> None:
    """Copy the moments that the optimiser took as they are: a file may be mapped to them."""
    for moments in optimiser.state.values():
        for name, value in moments.items():
            # Parts of divided tensors are copies already.
            if isinstance(value, Tensor) and value.device.type == "cpu" and not is_part(value):
                moments[name] = value.clone()


def _begin_momentum(optimiser: torch.optim.SGD) -> None:
    """Let the momentum of fused SGD begin at zeros, which gives the same first step.

    By itself it begins with the first gradient. Where fp16 overflows in that step, as it often
    does, the kernel leaves uninitialised memory as the momentum. Without fusing, SGD with fp16
    makes the host wait for the GPU in each step.
    """
    for group in optimiser.param_groups:
        if not (group["fused"] and group["momentum"]):
            continue
        for parameter in group["params"]:
            state = optimiser.state[parameter]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = torch.zeros_like(parameter)
