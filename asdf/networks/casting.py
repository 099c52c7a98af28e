"""The weights of a layer in autocast's number format, cast by one operation instead of one for each.

Invariant: the numbers are those of autocast to the last bit. It casts each weight when it is used, and the gradient
back; here those of a layer's linear maps and convolutions are cast together, before it runs. A GPU needs one launch
for them then, and the host most of a step's time is spent on launches.

The weights of a whole network could be cast at once, but their gradients would then all arrive at the end of the
backward pass, where their exchange between processes overlaps with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

# Those of which autocast takes weight and bias in its format. A class derived from them may do anything.
_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d)

# A search of a layer's modules takes as long as a cast.
_OWNERS: WeakKeyDictionary[nn.Module, list[tuple[nn.Module, str]]] = WeakKeyDictionary()


@contextmanager
def weights_cast_together(layer: nn.Module, device: torch.device) -> Iterator[None]:
    """Within autocast, have the linear maps and convolutions of `layer` find their weights cast.

    All of them must compute in autocast's format. Without autocast, in a network that is compiled, and for parameters
    that are not whole and of float32, nothing happens.
    """
    if torch.compiler.is_compiling() or not _autocast_enabled(device):
        yield
        return
    owners, weights = [], []
    for owner, name in _owners(layer):
        weight = owner._parameters[name]
        # A part of a divided network's parameter is of another type.
        if type(weight) is nn.Parameter and weight.dtype is torch.float32:
            owners.append((owner, name))
            weights.append(weight)
    if not weights:
        yield
        return
    casts = _Cast.apply(torch.get_autocast_dtype(device.type), *weights)
    try:
        for (owner, name), cast in zip(owners, casts, strict=True):
            # An attribute of the object comes before a parameter of the module.
            owner.__dict__[name] = cast
        yield
    finally:
        for owner, name in owners:
            owner.__dict__.pop(name, None)


def _autocast_enabled(device: torch.device) -> bool:
    # The meta device, on which networks are measured without weights, knows no autocast.
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def _owners(layer: nn.Module) -> list[tuple[nn.Module, str]]:
    """The modules within `layer` whose weights autocast casts, and the names of these."""
    if layer not in _OWNERS:
        modules = [module for module in layer.modules() if type(module) in _KINDS]
        _OWNERS[layer] = [
            (module, name)
            for module in modules
            for name, weight in module._parameters.items()
            if weight is not None
        ]
    return _OWNERS[layer]


class _Cast(torch.autograd.Function):
    """Tensors in another format, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return _copied(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [gradient for gradient in gradients if gradient is not None]
        copies = iter(_copied(present, torch.float32))
        return None, *(None if gradient is None else next(copies) for gradient in gradients)


def _copied(tensors: Any, dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)
