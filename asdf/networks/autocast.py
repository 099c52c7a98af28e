"""Which number format a part of a forward pass computes in, beyond what autocast chooses.

Logits, and whatever else decides a score, stay in float32 under autocast: bfloat16 would make
different scores equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import local

import torch
from torch import Tensor, nn

from asdf.networks.fast_functions import is_on_cpu
from asdf.networks.traced_sizes import is_traced


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


class _PassChoices(local):
    """Choices of the forward pass that a thread computes.

    Attributes:
        apart: Whether weights are cast when they are used: most of those of packed layers are not.
        short_norms: Whether norms compute in autocast's format.
    """

    # No ContextVar: torch 2.11 breaks the graph of a compiled network where one is read.
    apart = False
    short_norms = False


PASS = _PassChoices()


@contextmanager
def weights_cast_apart() -> Iterator[None]:
    """Leave casting to autocast inside the block, where layers' weights may not be used at all."""
    before = PASS.apart
    PASS.apart = True
    try:
        yield
    finally:
        PASS.apart = before


@contextmanager
def norms_shortened(short: bool) -> Iterator[None]:
    """Let `norms_are_short` return `short` inside the block."""
    before = PASS.short_norms
    PASS.short_norms = short
    try:
        yield
    finally:
        PASS.short_norms = before


def norms_are_short() -> bool:
    """Return whether norms compute in autocast's format, for `weights_cast_together`.

    To be asked in the forward pass: what is computed again in the backward pass gets the answer as
    an argument.
    """
    return PASS.short_norms


def is_autocast_on(device: torch.device) -> bool:
    """Return whether autocast chooses number formats on `device`."""
    # The meta device, on which networks are measured without weights, knows no autocast.
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def is_short_on_gpu(x: Tensor) -> bool:
    """Return whether a GPU computes what follows `x` in 16 bits, operation by operation.

    There an order in memory, or other operations for the same numbers, decide how long it takes.
    """
    if torch.compiler.is_compiling() or is_traced() or is_on_cpu(x):
        return False
    return is_autocast_on(x.device)
