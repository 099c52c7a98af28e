"""Whether weights fit a network, layer by layer, and how layers are told of.

Invariant: after a load every layer holds the file's numbers. A layer that the file lacks, has in another shape, or
has beside the network's own is an error that names it, never a layer left at random or left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.interchange.weights_file import READABLE
from asdf.text import and_more

PUBLISHED_FRONT_END = "ssl_model.model."
_SHOWN = 6


def check_layers(
    own: Mapping[str, torch.Size], state: Mapping[str, Tensor], kind: str, source: str
) -> None:
    """Hold the layers of a file against the shapes of those that a network has.

    Raises:
        AsdfError: names the layers that are missing, of another shape, or too many.
    """
    missing = [name for name in own if name not in state]
    too_many = [name for name in state if name not in own]
    misshapen = [
        f"{name} ({_size(state[name].shape)} in the file, {_size(shape)} in the network)"
        for name, shape in own.items()
        if name in state and state[name].shape != shape
    ]
    faults = {
        "missing from the file": missing,
        "of another shape": misshapen,
        "without a place": too_many,
    }
    told = [f"{len(names)} {fault}: {some(names)}" for fault, names in faults.items() if names]
    if told:
        raise AsdfError(
            f"weights {source} do not fit {kind}; nothing was loaded. Layers {'; '.join(told)}. "
            f"They are of another architecture (front_end.architecture), or of another kind. {READABLE}."
        )


def load_layers(module: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Load every layer of `module`, or none.

    Raises:
        AsdfError: names the layers that are missing, of another shape, or too many.
    """
    own = {name: tensor.shape for name, tensor in module.state_dict().items()}
    check_layers(own, state, type(module).__name__, source)
    module.load_state_dict(dict(state))


def groups(names: Iterable[str]) -> str:
    """Names of layers, those of one module once, by the name of the innermost module that has them all."""
    modules: dict[str, list[list[str]]] = {}
    for name in names:
        parts = name.removeprefix(PUBLISHED_FRONT_END).split(".")
        modules.setdefault(parts[0], []).append(parts)
    return ", ".join(_group(first, layers) for first, layers in modules.items())


def _group(first: str, layers: list[list[str]]) -> str:
    if layers == [[first]]:
        return first
    levels = zip(*(parts[1:-1] for parts in layers), strict=False)
    common = takewhile(lambda level: len(set(level)) == 1, levels)
    return ".".join([first, *(level[0] for level in common), "*"])


def some(names: list[str]) -> str:
    """The first of these names, and how many more there are."""
    return and_more(names, _SHOWN)


def _size(shape: torch.Size) -> str:
    return "x".join(map(str, shape)) or "a number"
