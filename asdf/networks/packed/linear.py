"""A linear map with packed weights, in the position of torch's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asdf.networks.packed.arithmetic import LinearWeight

MIN_NUMBERS = 2**16
"""Of a weight: torch's is faster for smaller ones, such as 128 times 128."""


class PackedLinear(nn.Module):
    """What `nn.Linear` computes.

    It holds no parameters. Code that looks at its weight gets a copy, or the network's own
    parameter where that is still there.
    """

    def __init__(self, linear: nn.Linear, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._weight = LinearWeight(linear.weight, linear.bias, dtype)

    @property
    def weight(self) -> Tensor:
        """The weight (out, in), as a copy."""
        return self._weight.unpacked()

    @property
    def bias(self) -> Tensor | None:
        """The bias (out,)."""
        return self._weight.bias_O

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        return self._weight.apply(x)


def is_large(linear: nn.Linear) -> bool:
    """Return whether packing its weight pays."""
    return linear.weight.numel() >= MIN_NUMBERS
