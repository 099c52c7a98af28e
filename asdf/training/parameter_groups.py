"""The trained parameters, in groups with one learning rate and one weight decay each.

Invariant: the order of the groups and of their parameters depends only on the network and the
settings, since a checkpoint numbers the optimiser's moments by it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from asdf.errors import UsageError
from asdf.networks import FrontEnd, front_end_parameters
from asdf.training.training_sections import TrainingSections

# A parameter group with its options, as torch's optimisers take them.
Group = dict[str, Any]


class _GroupKey(NamedTuple):
    """The common properties of a group's parameters, by which groups are sorted."""

    is_front_end: bool
    decays: bool
    layers_above: int


def group_parameters(network: nn.Module, settings: TrainingSections) -> list[Group]:
    """Return the trained parameters, grouped by their learning rate and weight decay.

    Besides torch's options, each group holds its rate before any schedule as `base_lr`.

    Raises:
        UsageError: rates decay by layer, but no front end has known layers.
    """
    training = settings.network
    front_end = {id(parameter) for parameter in front_end_parameters(network)}
    layers_above: dict[int, int] = {}
    if settings.front_end.layer_decay < 1:
        layers_above = _layers_above(network, settings.front_end.layer_decay)
    # Modules may share a parameter, which torch's optimisers refuse in two groups; the first module
    # that owns it counts.
    names: dict[nn.Parameter, str] = {}
    for prefix, module in network.named_modules():
        owner = type(module).__name__
        for name, parameter in module.named_parameters(prefix, recurse=False):
            # No name contains a line break, so no pattern matches across it.
            names.setdefault(parameter, f"{name}\n{owner}".lower())
    members: dict[_GroupKey, list[nn.Parameter]] = {}
    for parameter, searched in names.items():
        if not parameter.requires_grad:
            continue
        decays = not any(part.lower() in searched for part in training.weight_decay_skiplist)
        is_front_end = id(parameter) in front_end
        above = layers_above.get(id(parameter), 0) if is_front_end else 0
        key = _GroupKey(is_front_end, decays, above)
        members.setdefault(key, []).append(parameter)
    groups = []
    # The order is part of a checkpoint, whose moments are numbered by it.
    for key, parameters in sorted(members.items()):
        rate = training.initial_learning_rate
        if key.is_front_end and settings.front_end.learning_rate is not None:
            rate = settings.front_end.learning_rate
        rate *= settings.front_end.layer_decay**key.layers_above
        decay = training.weight_decay if key.decays else 0.0
        groups.append(make_group(parameters, rate, decay))
    return groups


def make_group(parameters: list[nn.Parameter], rate: float, decay: float) -> Group:
    """Return a group of parameters with one learning rate and one weight decay."""
    return {"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay}


def _layers_above(network: nn.Module, layer_decay: float) -> dict[int, int]:
    """Return how many layers of its front end lie above each parameter, by the parameter's id.

    Modules before the first layer lie below all layers, as the embedding does in BEiT (Bao et al.,
    ICLR 2022), and a norm that ends the encoder belongs to the last layer.
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
            f"front_end.layer_decay = {layer_decay:g}: the network has no front end with known "
            "encoder layers. Set it to 1.0, or give your front end a method layer_modules."
        )
    return above
