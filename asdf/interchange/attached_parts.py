"""Parts that training added to a network, as they come back from a file.

Invariant: a part of ours is built only if the file brings its numbers, so a small file that claims
a huge part takes no memory; and the caller's random state does not advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from asdf.interchange.fitting import check_layers
from asdf.networks.without_numbers import without_numbers

Part = TypeVar("Part", bound=nn.Module)


def build_part(build: Callable[[], Part]) -> Part:
    """Return the part that `build` makes, whose random numbers count for nothing."""
    with torch.random.fork_rng(devices=[]):
        return build()


def check_numbers(
    build: Callable[[], nn.Module],
    prefix: str,
    state: Mapping[str, Any],
    class_path: str,
    source: str,
    advice: str,
) -> None:
    """Check that a file has the numbers of the part that `build` makes; only shapes are made.

    Args:
        prefix: Prefix of the names of the part's layers in the file.
        state: the layers of the file.
        class_path: Class path of the part.
        source: Name of the file in messages.

    Raises:
        AsdfError: a layer is missing, or has another shape.
    """
    with without_numbers():
        outline = build()
    shapes = {f"{prefix}{name}": part.shape for name, part in outline.state_dict().items()}
    layers = {name: value for name, value in state.items() if name.startswith(prefix)}
    check_layers(shapes, layers, class_path, source, advice)
