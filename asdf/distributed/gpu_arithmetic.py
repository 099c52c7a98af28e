"""How a GPU multiplies float32, as it is or as TF32 of about 3 digits; and whose attention it uses.

Invariant: the program around decides nothing. TF32 is used in training as `computing.tf32` says,
in scoring as `asdf.scoring.computing` does, for cached features as `front_end.cache_precision`.
cuDNN's attention is never used, which torch prefers on GPUs of compute capability 9.0 and 10: it
plans each new length of a batch for longer than the batch takes to compute, and gradients of it
that were not finite are on record. Flash attention is as fast at these lengths.

torch has two interfaces to TF32, and refuses to read the older one if the newer one contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.backends import cuda, cudnn

# Its type stub lacks `conv` and `rnn`.
_CUDNN: Any = cudnn
_PRODUCTS: tuple[Any, ...] = (cuda.matmul, _CUDNN.conv, _CUDNN.rnn)


def set_arithmetic(tf32: bool) -> None:
    """Allow TF32 in this process, or not, and never cuDNN's attention."""
    cuda.enable_cudnn_sdp(False)
    # The older interface as well: torch's compiler reads it.
    cuda.matmul.allow_tf32 = tf32
    cudnn.allow_tf32 = tf32
    for products in _PRODUCTS:
        products.fp32_precision = _name(tf32)


@contextmanager
def arithmetic(tf32: bool) -> Iterator[None]:
    """Allow TF32 inside the block, or not, and not cuDNN's attention; restore both afterwards."""
    before = [products.fp32_precision for products in _PRODUCTS]
    attention = cuda.cudnn_sdp_enabled()
    try:
        cuda.enable_cudnn_sdp(False)
        for products in _PRODUCTS:
            products.fp32_precision = _name(tf32)
        yield
    finally:
        cuda.enable_cudnn_sdp(attention)
        for products, precision in zip(_PRODUCTS, before, strict=True):
            products.fp32_precision = precision


@contextmanager
def keep_arithmetic() -> Iterator[None]:
    """Restore after the block what was chosen before it, TF32 in both interfaces."""
    before = [products.fp32_precision for products in _PRODUCTS]
    attention = cuda.cudnn_sdp_enabled()
    older = _read_older()
    try:
        yield
    finally:
        cuda.enable_cudnn_sdp(attention)
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


def _name(tf32: bool) -> str:
    return "tf32" if tf32 else "ieee"
