"""The arithmetic of a process: bfloat16 on a processor; TF32 and attention kernels on a GPU.

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
from functools import cache
from typing import Any

import torch
from torch.backends import cuda, cudnn

NO_BFLOAT16 = (
    "bf16 not used: torch has no bf16 for all operations on this CPU, it needs AVX-512 or "
    "AVX-NE-CONVERT; fp32 is faster and finer here"
)

# Its type stub lacks `conv` and `rnn`.
_CUDNN: Any = cudnn
_PRODUCTS: tuple[Any, ...] = (cuda.matmul, _CUDNN.conv, _CUDNN.rnn)
_NAMES = {True: "tf32", False: "ieee"}


@cache
def computes_bfloat16() -> bool:
    """Return whether all operations of the networks have kernels for bfloat16 on this processor.

    Linear maps and convolutions are emulated everywhere; oneDNN's recurrent layers need AVX-512 or
    AVX-NE-CONVERT. They are tried, since oneDNN may be limited to fewer instructions than the
    processor has (ONEDNN_MAX_CPU_ISA), which torch's flags do not show.
    """
    x_TBI = torch.zeros(2, 1, 16)
    state = (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16))
    # Zero weights, since creating an nn.LSTM would draw random numbers and change later draws.
    weights = [torch.zeros(64, 16), torch.zeros(64, 16)]
    try:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            torch.lstm(x_TBI, state, weights, False, 1, 0.0, False, False, False)
    except RuntimeError:
        return False
    return True


def multiplies_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 natively rather than by emulation."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    # Private functions of torch, which an earlier version may lack.
    has_instructions = any(getattr(torch.cpu, name, bool)() for name in names)
    return has_instructions and computes_bfloat16()


def set_arithmetic(tf32: bool) -> None:
    """Allow or forbid TF32 in this process, and disable cuDNN's attention."""
    cuda.enable_cudnn_sdp(False)
    # Also through the older interface, which torch's compiler reads.
    cuda.matmul.allow_tf32 = tf32
    cudnn.allow_tf32 = tf32
    for products in _PRODUCTS:
        products.fp32_precision = _NAMES[tf32]


@contextmanager
def arithmetic(tf32: bool) -> Iterator[None]:
    """Allow or forbid TF32 in the block and disable cuDNN's attention; restore both afterwards."""
    with keep_arithmetic():
        cuda.enable_cudnn_sdp(False)
        for products in _PRODUCTS:
            products.fp32_precision = _NAMES[tf32]
        yield


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
