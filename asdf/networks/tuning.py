"""What of a front end is trained: all or nothing of it by epoch, parts, or low-rank updates (LoRA).

Invariants: whether the front end's weights are trained in an epoch depends only on the settings and
the epoch's number, so a resumed run continues exactly. The optimiser holds the weights of a frozen
front end from the start: without gradients it neither moves nor decays them.

Every target in `lora.targets` matches a map, and every matching map is updated, however the front
end computes with it. An updated map keeps its class's interface and the names and values of its
weights; initially its results are unchanged, to the last bit on the CPU. Reading its `weight` gives
the updated one, so attention that multiplies by weights directly is updated as well. In `eval()`
mode it computes with that weight, so a merged network gives exactly the same scores.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022.

Shapes: B any number of dimensions, I input values, O output values, R the rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.casting import without_autocast
from asdf.networks.front_ends.front_end import FrontEnd, all_parameters
from asdf.networks.interface import front_end_parameters, untrained_parameters
from asdf.runs.seeds import derived_seed
from asdf.settings.front_end_values import TARGETS, is_pattern
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Lora, Sections
from asdf.text import and_more, did_you_mean

# The parts of attention's joined projection, in this order.
_JOINED = ("q_proj", "k_proj", "v_proj")
_DOWN = "lora_A"
_UP = "lora_B"
_SHOWN = 4
# Names of the parameters trained before a network's front end was frozen. Names stay valid when
# parameters are replaced.
_LEARNT: WeakKeyDictionary[nn.Module, frozenset[str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class LinearMap:
    """A linear map in a front end.

    Attributes:
        name: Name in the front end's model; for a joined projection, including the part.
        kind: Kind of the map: 'attention', 'feed_forward', or '' outside encoder layers.
        part: Part of a joined projection: 'q_proj', 'k_proj' or 'v_proj'; else ''.
    """

    name: str
    module: nn.Module
    kind: str
    part: str = ""

    def fits(self, target: str) -> bool:
        """Return whether `target`, from `lora.targets`, matches this map."""
        if is_pattern(target):
            return fnmatchcase(self.name, target)
        return self.kind == target


def add_low_rank(front_end: FrontEnd, lora: Lora) -> None:
    """Add zero updates to the maps in `lora.targets`.

    Raises:
        UsageError: a target matches no map, or a map that cannot be updated.
    """
    maps = list(linear_maps(front_end))
    for target in lora.targets:
        if any(linear.fits(target) for linear in maps):
            continue
        names = [linear.name for linear in maps]
        advice = "" if target in TARGETS else did_you_mean(target, names)
        raise UsageError(
            f"lora.targets: {type(front_end).__name__} has no linear map {target!r}.{advice} Its "
            f"maps are {and_more(names, _SHOWN) or 'none'}."
        )
    for linear in maps:
        if any(linear.fits(target) for target in lora.targets):
            _check_map(linear, lora)
            update_map(linear.module, lora, linear.name, linear.part)


def linear_maps(front_end: FrontEnd) -> Iterator[LinearMap]:
    """Yield the linear maps that the front end computes, including parts of joined projections."""
    unused = {id(parameter) for parameter in front_end.unused_parameters()}
    in_layers = {id(inner) for layer in front_end.layer_modules() for inner in layer.modules()}
    for name, module in front_end.model.named_modules():
        parameters = list(module.parameters(recurse=False))
        if not parameters or any(id(parameter) in unused for parameter in parameters):
            continue
        is_in_layer = id(module) in in_layers
        if isinstance(module, nn.MultiheadAttention):
            for part in _JOINED:
                yield LinearMap(f"{name}.{part}", module, "attention" if is_in_layer else "", part)
        elif isinstance(module, nn.Linear):
            kind = ""
            *path, leaf = name.lower().split(".")
            # Maps of positions, such as WavLM's gates, take the values of one head.
            if is_in_layer and "pos" not in leaf:
                is_attention = any("attn" in part or "attention" in part for part in path)
                kind = "attention" if is_attention else "feed_forward"
            yield LinearMap(name, module, kind)


def _check_map(linear: LinearMap, lora: Lora) -> None:
    module = linear.module
    about = f"lora.targets: {linear.name}"
    if linear.part:
        if module._parameters.get("in_proj_weight") is None:
            raise UsageError(f"{about} belongs to attention whose maps differ in size. Remove it.")
        if lora.dropout:
            raise UsageError(
                f"lora.dropout = {lora.dropout}: {linear.name} is part of a joined projection, "
                "where dropout cannot apply to the update alone. Set lora.dropout = 0, or choose "
                "other lora.targets."
            )
        return
    if type(module).forward is not nn.Linear.forward or "weight" not in module._parameters:
        raise UsageError(
            f"{about} is a {type(module).__name__}, which computes differently from "
            "torch.nn.Linear. Choose other lora.targets."
        )
    assert isinstance(module, nn.Linear)
    if lora.rank > min(module.in_features, module.out_features):
        raise UsageError(
            f"lora.rank = {lora.rank}: {linear.name} maps {module.in_features} values to "
            f"{module.out_features}. The rank must not exceed the lower of the two."
        )


class _Updated(nn.Module):
    """A module with updated weights; `update_map` turns a plain module into one.

    Attributes:
        plain_class: Original class of the module, which merging restores.
        lora_scale: Scale of the update, alpha / rank.
    """

    plain_class: type[nn.Module]
    lora_scale: float
    lora_dropout: float

    def factors(self, suffix: str = "") -> tuple[Tensor, Tensor]:
        """Return the factors of an update, A (R, I) and B (O, R)."""
        down_RI, up_OR = self._parameters[_DOWN + suffix], self._parameters[_UP + suffix]
        return cast(Tensor, down_RI), cast(Tensor, up_OR)

    def updated(self, weight_OI: Tensor, suffix: str = "") -> Tensor:
        """Return W + alpha/R BA."""
        down_RI, up_OR = self.factors(suffix)
        with without_autocast(weight_OI):
            return weight_OI + self.lora_scale * (up_OR @ down_RI)


class LowRankLinear(_Updated, nn.Linear):
    """A linear map with an update."""

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The updated weight (O, I)."""
        return self.updated(self.base_weight)

    @property
    def base_weight(self) -> Tensor:
        """The original weight (O, I), as in the state dict."""
        return cast(Tensor, self._parameters["weight"])

    def forward(self, x_BI: Tensor) -> Tensor:
        """Return (B, O); in training by two small products, without the updated weight."""
        if not self.training:
            return F.linear(x_BI, self.weight, self.bias)
        plain_BO = F.linear(x_BI, self.base_weight, self.bias)
        dropped_BI = F.dropout(x_BI, self.lora_dropout)
        down_RI, up_OR = self.factors()
        return plain_BO + self.lora_scale * F.linear(F.linear(dropped_BI, down_RI), up_OR)


class LowRankAttention(_Updated, nn.MultiheadAttention):
    """Attention with a joined map of queries, keys and values, some of them with an update."""

    @property
    def in_proj_weight(self) -> Tensor:  # type: ignore[override]
        """The updated weight (3 O, I)."""
        base = cast(Tensor, self._parameters["in_proj_weight"])
        parts = []
        for name, weight_OI in zip(_JOINED, base.chunk(len(_JOINED)), strict=True):
            has_update = f"{_DOWN}_{name}" in self._parameters
            parts.append(self.updated(weight_OI, f"_{name}") if has_update else weight_OI)
        return torch.cat(parts)


def update_map(module: nn.Module, lora: Lora, name: str, part: str = "") -> None:
    """Add a zero update to a linear map, or to a `part` of attention's joined projection.

    Args:
        name: Name of the map in its network; with torch's seed, it determines the initial values.
    """
    if not isinstance(module, _Updated):
        plain_class = type(module)
        module.__class__ = LowRankAttention if part else LowRankLinear
        updated = cast(_Updated, module)
        updated.plain_class = plain_class
        updated.lora_scale = lora.alpha / lora.rank
        updated.lora_dropout = lora.dropout
    suffix = ""
    weight_OI = cast(Tensor, module._parameters["in_proj_weight" if part else "weight"]).detach()
    if part:
        suffix = f"_{part}"
        weight_OI = weight_OI.chunk(len(_JOINED))[_JOINED.index(part)]
    size_out, size_in = weight_OI.shape
    down_RI = weight_OI.new_empty((lora.rank, size_in))
    # Networks are outlined on the meta device, where nothing can be drawn.
    if not down_RI.is_meta:
        # Uniform numbers of variance 1 / (3 I). Torch's generator does not advance, so the other
        # parameters start as in a network without updates.
        bound = 1.0 / math.sqrt(size_in)
        generator = torch.Generator().manual_seed(derived_seed(torch.initial_seed(), "lora", name))
        # On the CPU, so that the values are the same on any device.
        numbers_RI = torch.empty(down_RI.shape, device="cpu")
        down_RI.copy_(numbers_RI.uniform_(-bound, bound, generator=generator))
    module.register_parameter(_DOWN + suffix, nn.Parameter(down_RI))
    module.register_parameter(
        _UP + suffix, nn.Parameter(weight_OI.new_zeros((size_out, lora.rank)))
    )


def merge_updates(network: nn.Module) -> int:
    """Merge the updates into the weights, in place; return the number of updated modules.

    The network then has the classes, names and shapes of one without LoRA.
    """
    updated = list(updated_modules(network))
    for module in updated:
        name = "weight" if isinstance(module, LowRankLinear) else "in_proj_weight"
        merged = getattr(module, name).detach()
        for factor in list(module._parameters):
            if factor.startswith((_DOWN, _UP)):
                del module._parameters[factor]
        module.__class__ = module.plain_class  # type: ignore[assignment]
        module._parameters[name] = nn.Parameter(merged, requires_grad=False)
    return len(updated)


def updated_modules(network: nn.Module) -> Iterator[_Updated]:
    """Yield the modules with an update."""
    for module in network.modules():
        if isinstance(module, _Updated):
            yield module


def tune_front_ends(network: nn.Module, settings: Sections) -> None:
    """Add `lora` to the network's front ends, and set what of them is trained.

    Updates are added after pretrained weights are loaded, which see the plain modules.

    Raises:
        UsageError: the network has no front end to which the settings apply, or it lacks a part
            that they name.
    """
    front_ends = [module for module in network.modules() if isinstance(module, FrontEnd)]
    # Settings that only apply to networks with a front end.
    setting = "front_end.trained_parts" if settings.front_end.trained_parts is not None else ""
    if settings.lora.rank:
        setting = "lora.rank"
    if setting and not front_ends:
        class_path = settings.network.network_class
        raise UsageError(
            f"{setting}: {class_path} has no front end of asdf.networks.FrontEnd to apply it to. "
            f"Leave {setting} out, or choose another network.network_class."
        )
    if settings.lora.rank:
        for front_end in front_ends:
            plain = frozenset(name for name, _ in all_parameters(front_end))
            add_low_rank(front_end, settings.lora)
            # The updates alone are trained, unless parts are named.
            if settings.front_end.trained_parts is None:
                front_end.resting = plain
            front_end.freeze(front_end.frozen)
    # Otherwise processes would wait for gradients of unused parameters, which never arrive.
    for parameter in untrained_parameters(network):
        parameter.requires_grad_(False)
    if settings.front_end.frozen:
        freeze_front_end(network, True)


def frozen_in_epoch(settings: FrontEndSettings, epochs: int) -> bool:
    """Return whether the front end is frozen in the epoch after `epochs` whole epochs."""
    return settings.frozen or epochs < (settings.unfreeze_after_epochs or 0)


def freeze_front_end(network: nn.Module, frozen: bool) -> None:
    """Freeze or unfreeze the front end's weights.

    A frozen front end runs without dropout and masks. A user's module that is not a `FrontEnd`
    takes part with the parameters in its network's `front_end_parameters`. Unfreezing restores only
    the parameters that were trained before, since the loss or the network's class may have frozen
    others.
    """
    # If the front end is frozen already, its trained parameters are recorded, or there are none.
    if frozen and any(parameter.requires_grad for parameter in _all_front_end_parameters(network)):
        learning = [name for name, value in network.named_parameters() if value.requires_grad]
        _LEARNT[network] = frozenset(learning)
    for module in network.modules():
        if isinstance(module, FrontEnd):
            module.freeze(frozen)
            module.train(network.training)
    # Parameters that `forward` does not use, and resting ones, are never trained.
    untrained = {id(parameter) for parameter in untrained_parameters(network)}
    for parameter in front_end_parameters(network):
        parameter.requires_grad_(not frozen and id(parameter) not in untrained)
    learnt = _LEARNT.get(network)
    if frozen or learnt is None:
        return
    of_front_ends = {id(parameter) for parameter in _all_front_end_parameters(network)}
    for name, parameter in network.named_parameters():
        if id(parameter) in of_front_ends and name not in learnt:
            parameter.requires_grad_(False)


def _all_front_end_parameters(network: nn.Module) -> Iterator[nn.Parameter]:
    yield from front_end_parameters(network)
    for module in network.modules():
        if isinstance(module, FrontEnd):
            yield from (parameter for _, parameter in all_parameters(module))
