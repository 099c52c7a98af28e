"""The linear maps of a front end that LoRA updates.

Invariant: every name and pattern of `lora.targets` matches a map, and every matching map is
updated, however the front end computes with it; a map that cannot be updated is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from asdf.errors import UsageError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.tuning.low_rank import JOINED, update_map
from asdf.settings.part_names import TARGETS, is_pattern
from asdf.settings.sections import Lora
from asdf.text import and_more, did_you_mean

_SHOWN = 4


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
        if not any(linear.fits(target) for linear in maps):
            raise UsageError(_describe_missing(front_end, target, maps))
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
            for part in JOINED:
                kind = "attention" if is_in_layer else ""
                yield LinearMap(f"{name}.{part}", module, kind, part)
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


def _describe_missing(front_end: FrontEnd, target: str, maps: list[LinearMap]) -> str:
    names = [linear.name for linear in maps]
    advice = "" if target in TARGETS else did_you_mean(target, names)
    return (
        f"lora.targets: {type(front_end).__name__} has no linear map {target!r}.{advice} Its maps "
        f"are {and_more(names, _SHOWN) or 'none'}."
    )
