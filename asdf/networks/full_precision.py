"""What is computed in float32 also under autocast: bfloat16 would make different scores equal."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a block without autocast on the device of `x`."""
    if x.is_meta:
        # The meta device, on which networks are measured without weights, knows no autocast.
        return nullcontext()
    if not torch.is_autocast_enabled(x.device.type):
        # A block of autocast takes as long as a small layer.
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def in_full_precision(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply an output layer in the precision of its weights, float32: its logits are the scores.

    In bfloat16 a score between 4 and 8 is a multiple of 1/32, and trials of equal scores are
    neither distinguished nor ranked.
    """
    with without_autocast(x):
        result: Tensor = layer(x.to(layer.weight.dtype))
    return result
