"""What is computed in float32 also under autocast, because numbers of 8 bits would be equal where scores are not."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A block without autocast on the device of `x`."""
    # The meta device, on which networks are measured without weights, knows no autocast.
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def in_full_precision(layer: nn.Linear, x: Tensor) -> Tensor:
    """`layer` of `x`, in the precision of its weights, float32: an output layer's logits are the scores.

    In bfloat16 a score between 4 and 8 is a multiple of 1/32, and trials of equal scores are
    neither told apart nor ranked.
    """
    with without_autocast(x):
        result: Tensor = layer(x.to(layer.weight.dtype))
    return result
