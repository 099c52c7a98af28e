"""Whether a GPU multiplies float32 numbers as they are, or as TF32: faster, with about 3 digits.

Invariant: TF32 is used only on request, whatever the program around has chosen: in training by
`computing.tf32`, in scoring as `asdf.scoring.precision` says, in the pass that computes features
never.

torch has two interfaces to this, and refuses to read the older one if the newer one contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.backends import cuda, cudnn

# Its type stub lacks `conv` and `rnn`.
_CUDNN: Any = cudnn
_PRODUCTS: tuple[Any, ...] = (cuda.matmul, _CUDNN.conv, _CUDNN.rnn)


def set_tf32(allowed: bool) -> None:
    """Allow TF32 in this process, or not."""
    # The older interface as well: torch's compiler reads it.
    cuda.matmul.allow_tf32 = allowed
    cudnn.allow_tf32 = allowed
    for products in _PRODUCTS:
        products.fp32_precision = _name(allowed)


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Allow TF32 inside the block, or not; afterwards restore the choice of before."""
    before = [products.fp32_precision for products in _PRODUCTS]
    try:
        for products in _PRODUCTS:
            products.fp32_precision = _name(allowed)
        yield
    finally:
        for products, precision in zip(_PRODUCTS, before, strict=True):
            products.fp32_precision = precision


@contextmanager
def keep_tf32() -> Iterator[None]:
    """Restore the choice of before after the block, in both interfaces."""
    before = [products.fp32_precision for products in _PRODUCTS]
    older = _read_older()
    try:
        yield
    finally:
        # An unchanged value is not set again: it may be inherited, and would then be fixed.
        if older is not None and _read_older() != older:
            cuda.matmul.allow_tf32 = older[0]
            cudnn.allow_tf32 = older[1]
        for products, precision in zip(_PRODUCTS, before, strict=True):
            if products.fp32_precision != precision:
                products.fp32_precision = precision


def _read_older() -> tuple[bool, bool] | None:
    """Return what the older interface says; None if the newer one was used, and torch refuses."""
    try:
        return cuda.matmul.allow_tf32, cudnn.allow_tf32
    except RuntimeError:
        return None


def _name(allowed: bool) -> str:
    return "tf32" if allowed else "ieee"
