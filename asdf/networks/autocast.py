"""Modes of a forward pass: number formats beyond the choices of autocast, and no numbers at all.

Logits and other outputs that determine a score stay in float32 under autocast: in bfloat16,
different scores could become equal.

Networks without numbers have shapes only. On the meta device, torch computes some functions by
Python references, which load its compiler or sympy; this takes longer than all other steps of
opening a network. These functions, which initialise weights, get their result shapes directly here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import local
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from asdf.networks.functions import is_on_cpu, is_traced


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context manager that disables autocast on the device of `x`."""
    if x.is_meta:
        # Autocast does not support the meta device, on which networks are measured without weights.
        return nullcontext()
    if not torch.is_autocast_enabled(x.device.type):
        # Entering an autocast context takes as long as a small layer.
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def in_full_precision(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply an output layer in the precision of its weights, float32, since its logits are scores.

    In bfloat16, a score between 4 and 8 is a multiple of 1/32, and trials with equal scores cannot
    be ranked.
    """
    with without_autocast(x):
        result: Tensor = layer(x.to(layer.weight.dtype))
    return result


class _PassChoices(local):
    """Choices for the forward pass of the current thread.

    Attributes:
        apart: Whether each weight is cast when it is used, since most weights of packed layers are
            not.
        short_norms: Whether norms compute in autocast's format.
    """

    # Not a ContextVar, since reading one breaks the graph of a compiled network in torch 2.11.
    apart = False
    short_norms = False


PASS = _PassChoices()


@contextmanager
def weights_cast_apart() -> Iterator[None]:
    """Leave casting to autocast inside the block, for layers whose weights may not be used."""
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

    Call this in the forward pass; code that recomputes in the backward pass gets the value as an
    argument.
    """
    return PASS.short_norms


def is_autocast_on(device: torch.device) -> bool:
    """Return whether autocast chooses number formats on `device`."""
    # Autocast does not support the meta device, on which networks are measured without weights.
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def is_short_on_gpu(x: Tensor) -> bool:
    """Return whether a GPU computes the operations after `x` in 16 bits, one by one.

    The order in memory and the choice of equivalent operations then determine the speed.
    """
    if torch.compiler.is_compiling() or is_traced() or is_on_cpu(x):
        return False
    return is_autocast_on(x.device)


@contextmanager
def without_numbers() -> Iterator[None]:
    """Create the block's tensors on the meta device, where they take no memory."""
    with torch.device("meta"), _Shapes():
        yield


class _Shapes(TorchFunctionMode):
    """A mode in which meta tensors are neither initialised nor normalised."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if args and isinstance(args[0], Tensor) and args[0].is_meta:
            if function is Tensor.normal_:
                return args[0]
            if function is torch.norm_except_dim and not kwargs:
                return _shape_of_norm(*args)
        if function is torch.randn and not kwargs:
            return torch.empty(*args)
        return function(*args, **(kwargs or {}))


def _shape_of_norm(weight: Tensor, power: int = 2, dim: int = 0) -> Tensor:
    """Return the shape of torch.norm_except_dim's result as an empty tensor."""
    # All dimensions but one are summed; -1 keeps none.
    sizes = [size if each == dim else 1 for each, size in enumerate(weight.shape)]
    return weight.new_empty(sizes if dim >= 0 else [])
