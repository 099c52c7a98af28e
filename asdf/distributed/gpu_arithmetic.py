"""A GPU's float32 arithmetic, exact or TF32 with about 3 digits, and its attention kernels.

Invariant: the surrounding program has no influence. TF32 is set by `computing.tf32` in training, by
`asdf.scoring.computing` in scoring, and by `front_end.cache_precision` for cached features. cuDNN's
attention, torch's default on GPUs of compute capability 9.0 and 10, is never used: planning each
new batch length takes longer than the computation, and gradients that are not finite have been
reported. Flash attention is as fast at these lengths.

torch has two interfaces for TF32, and refuses to read the older one if the newer contradicts it.
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
    """Allow or forbid TF32 in this process, and disable cuDNN's attention."""
    cuda.enable_cudnn_sdp(False)
    # Also through the older interface, which torch's compiler reads.
    cuda.matmul.allow_tf32 = tf32
    cudnn.allow_tf32 = tf32
    for products in _PRODUCTS:
        products.fp32_precision = _name(tf32)


@contextmanager
def arithmetic(tf32: bool) -> Iterator[None]:
    """Allow or forbid TF32 in the block and disable cuDNN's attention; restore both afterwards."""
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
    """Restore the TF32 settings of both interfaces after the block."""
    before = [products.fp32_precision for products in _PRODUCTS]
    attention = cuda.cudnn_sdp_enabled()
    older = _read_older()
    try:
        yield
    finally:
        cuda.enable_cudnn_sdp(attention)
        # An unchanged value is not set again, since it may be inherited and would then be fixed.
        if older is not None and _read_older() != older:
            cuda.matmul.allow_tf32 = older[0]
            cudnn.allow_tf32 = older[1]
        for products, precision in zip(_PRODUCTS, before, strict=True):
            if products.fp32_precision != precision:
                products.fp32_precision = precision


def _read_older() -> tuple[bool, bool] | None:
    """Return the older interface's settings; None if the newer was used and torch refuses."""
    try:
        return cuda.matmul.allow_tf32, cudnn.allow_tf32
    except RuntimeError:
        return None


def _name(tf32: bool) -> str:
    return "tf32" if tf32 else "ieee"
