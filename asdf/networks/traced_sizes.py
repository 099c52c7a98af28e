"""Arithmetic on sizes that depend on the length of a recording, also while tracing a network.

Invariant: outside a tracer, results are those of Python's operators. In a tracer, a size is a
tensor, and `int`, `min`, `max`, a comparison or `unfold` would turn it into a constant: the graph
would silently score other lengths wrongly. These functions become part of the graph instead.

Shapes: B utterances, T samples, L frames, W samples of a window.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

VARIANCE_FLOOR = 1e-5
"""Number that a layer norm adds to the variance before taking its root."""

# A size: an int, or in a tracer a tensor that stands for one, which torch's types do not express.
Size = Any


def is_traced() -> bool:
    """Return whether a tracer is recording the computation."""
    traced: bool = torch.jit.is_tracing()  # type: ignore[attr-defined]
    return traced or torch.compiler.is_exporting()


def at_least(size: Size, lowest: int) -> Size:
    """Return the larger of two sizes."""
    return size.clamp(min=lowest) if isinstance(size, Tensor) else max(size, lowest)


def at_most(size: Size, highest: int) -> Size:
    """Return the smaller of two sizes."""
    return size.clamp(max=highest) if isinstance(size, Tensor) else min(size, highest)


def share(size: Size, ratio: float) -> Size:
    """Return ratio * size, rounded down."""
    # In float64, like Python's numbers: float32 would round other products up to whole numbers.
    return (size.double() * ratio).long() if isinstance(size, Tensor) else int(size * ratio)


def windows(x_BT: Tensor, window: int, hop: int) -> Tensor:
    """Return the whole windows that begin every `hop` samples: (batch, frames, window)."""
    if not is_traced():
        return x_BT.unfold(1, window, hop)
    starts_L = torch.arange(0, x_BT.shape[1] - window + 1, hop, device=x_BT.device)
    index_LW = starts_L.unsqueeze(1) + torch.arange(window, device=x_BT.device)
    return x_BT[:, index_LW]


def normalize_rows(x_BT: Tensor, floor: float = VARIANCE_FLOOR) -> Tensor:
    """Return each row normalised to mean 0 and variance 1, like a layer norm over all its values.

    Args:
        floor: Number added to the variances.
    """
    if not is_traced():
        return F.layer_norm(x_BT, [x_BT.shape[1]], eps=floor)
    # In a graph, a layer norm has a constant size.
    centred_BT = x_BT - x_BT.mean(dim=1, keepdim=True)
    variance_B1 = centred_BT.square().mean(dim=1, keepdim=True)
    return centred_BT / (variance_B1 + floor).sqrt()
