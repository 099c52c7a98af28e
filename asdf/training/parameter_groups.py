"""The parameters that are trained, in groups of one learning rate and one weight decay.

Invariant: the order of the groups, and of the parameters in them, follows from the network and the
settings alone. A checkpoint numbers the optimiser's moments along it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from asdf.errors import UsageError
from asdf.networks import FrontEnd, front_end_parameters
from asdf.settings.sections import Sections

# A parameter group with its options, as torch's optimisers take them.
Group = dict[str, Any]


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
    layers_above: int


def group_parameters(network: nn.Module, settings: Sections) -> list[Group]:
    """Return the trained parameters, grouped by their learning rate and weight decay.

    Each group has, next to torch's options, its rate before any schedule as `base_lr`.

    Raises:
        UsageError: rates are to decay by layer, and no front end has known layers.
    """
    training = settings.network
    front_end = {id(parameter) for parameter in front_end_parameters(network)}
    layers_above: dict[int, int] = {}
    if settings.front_end.layer_decay < 1:
        layers_above = _layers_above(network, settings.front_end.layer_decay)
    members: dict[_GroupKey, list[nn.Parameter]] = {}
    for owned in _owned_parameters(network):
        if not owned.parameter.requires_grad:
            continue
        decays = not owned.matches(training.weight_decay_skiplist)
        is_front_end = id(owned.parameter) in front_end
        above = layers_above.get(id(owned.parameter), 0) if is_front_end else 0
        key = _GroupKey(is_front_end, decays, above)
        members.setdefault(key, []).append(owned.parameter)
    groups = []
    # The order is part of a checkpoint: its moments are numbered along it.
    for key, parameters in sorted(members.items()):
        rate = training.initial_learning_rate
        if key.is_front_end and settings.front_end.learning_rate is not None:
            rate = settings.front_end.learning_rate
        rate *= settings.front_end.layer_decay**key.layers_above
        decay = training.weight_decay if key.decays else 0.0
        groups.append(make_group(parameters, rate, decay))
    return groups


def make_group(parameters: list[nn.Parameter], rate: float, decay: float) -> Group:
    """Return the group of parameters of one learning rate and one weight decay."""
    return {"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay}


def _layers_above(network: nn.Module, layer_decay: float) -> dict[int, int]:
    """Return how many layers of its front end lie above each parameter of one, by its id.

    What comes before the first layer lies below all of them, as the embedding does in BEiT (Bao et
    al., ICLR 2022), and a norm that ends the encoder belongs to the last.
    """
    above: dict[int, int] = {}
    for front_end in network.modules():
        if not isinstance(front_end, FrontEnd):
            continue
        # `front_end.layer` may leave out the upper ones.
        layers = list(front_end.layer_modules())[: front_end.layers]
        if not layers:
            continue
        for parameter in front_end.parameters():
            above[id(parameter)] = len(layers)
        for number, layer in enumerate(layers, 1):
            for parameter in layer.parameters():
                above[id(parameter)] = len(layers) - number
        for parameter in front_end.final_norm_parameters():
            above[id(parameter)] = 0
    if not above:
        raise UsageError(
            f"front_end.layer_decay = {layer_decay:g}: no front end of the network has encoder "
            "layers that are known. Set it to 1.0, or give your front end a method layer_modules."
        )
    return above


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
