"""Matrix products that are fast on GPUs and need no compiler.

Shapes: X matrices; M, K, N their sizes; S parts of a sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Number of terms from which a product is computed as a sum of products, and terms of each part.
_LONG, _PART = 8192, 1024
_MOST_PARTS = 64


def multiply(first_XMK: Tensor, second_XKN: Tensor) -> Tensor:
    """Return the matrix products of (X, M, K) and (X, K, N)."""
    if first_XMK.shape[2] == 1:
        # Torch 2.14 computes outer products with Triton, which needs a C compiler on the machine.
        return first_XMK * second_XKN
    return torch.bmm(first_XMK, second_XKN)


def multiply_long(first_XMK: Tensor, second_XKN: Tensor) -> Tensor:
    """Return the matrix products of (X, M, K) and (X, K, N) for a very large K.

    A GPU assigns each part of the result to one multiprocessor: a small result with 60,000 terms
    leaves most of them idle, and takes 20 times as long as a sum of several products.
    """
    terms = first_XMK.shape[2]
    parts = 1
    if terms >= _LONG:
        # The largest number of equal parts that are long enough.
        parts = min(_MOST_PARTS, terms // _PART)
        while terms % parts:
            parts -= 1
    if parts == 1:
        return multiply(first_XMK, second_XKN)
    first_XMSK = first_XMK.unflatten(2, (parts, -1))
    first_XSMK = first_XMSK.transpose(1, 2)
    second_XSKN = second_XKN.unflatten(1, (parts, -1))
    products = torch.bmm(
        first_XSMK.flatten(0, 1),
        second_XSKN.flatten(0, 1),
    )
    products_XSMN = products.unflatten(0, (-1, parts))
    result_XMN: Tensor = products_XSMN.sum(1)
    return result_XMN
