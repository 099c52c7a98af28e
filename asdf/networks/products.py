"""Matrix products on any machine with a GPU.

Shapes: X matrices; M, K, N their sizes.
"""

from __future__ import annotations

import torch
from torch import Tensor


def multiply(first_XMK: Tensor, second_XKN: Tensor) -> Tensor:
    """Return the matrix products of (X, M, K) and (X, K, N)."""
    if first_XMK.shape[2] == 1:
        # Torch 2.14 computes outer products with Triton, which needs a C compiler on the machine.
        return first_XMK * second_XKN
    return torch.bmm(first_XMK, second_XKN)
