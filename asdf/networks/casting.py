"""The weights of a layer in autocast's number format, cast by one operation for all of them.

Invariant: the numbers are those of autocast to the last bit. It casts each weight when it is used,
and the gradient back; here those of a layer's linear maps and convolutions are cast together,
before it runs. A GPU then needs one launch for them, and launches are most of the host's time.

The weights of a whole network could be cast at once, but their gradients would then all arrive at
the end of the backward pass, where their exchange between processes overlaps with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

# Autocast takes weight and bias of these in its format. A class derived from them may do anything.
_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d)


@dataclass(frozen=True)
class _Slot:
    """An attribute of a module that holds a weight."""

    module: nn.Module
    name: str

    @property
    def weight(self) -> nn.Parameter | None:
        return self.module._parameters[self.name]


# A search of a layer's modules takes as long as a cast.
_SLOTS: WeakKeyDictionary[nn.Module, list[_Slot]] = WeakKeyDictionary()


# Whether weights are cast when they are used: most of those of packed layers are not.
_apart = ContextVar("apart", default=False)


@contextmanager
def weights_cast_apart() -> Iterator[None]:
    """Leave casting to autocast inside the block, where layers' weights may not be used at all."""
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


@contextmanager
def weights_cast_together(layer: nn.Module, device: torch.device) -> Iterator[None]:
    """Within autocast, have the linear maps and convolutions of `layer` see their weights cast.

    All of them must compute in autocast's format. Without autocast, in a network that is compiled,
    and for parameters that are not whole and of float32, nothing happens.
    """
    if torch.compiler.is_compiling() or _apart.get() or not _autocast_enabled(device):
        yield
        return
    slots = []
    weights = []
    for slot in _find_slots(layer):
        weight = slot.weight
        # A part of a divided network's parameter is of another type.
        if type(weight) is nn.Parameter and weight.dtype is torch.float32:
            slots.append(slot)
            weights.append(weight)
    if not weights:
        yield
        return
    casts = _cast_weights(torch.get_autocast_dtype(device.type), weights)
    try:
        for slot, cast in zip(slots, casts, strict=True):
            # Python finds an attribute of the object before a parameter of the module.
            slot.module.__dict__[slot.name] = cast
        yield
    finally:
        for slot in slots:
            slot.module.__dict__.pop(slot.name, None)


def _autocast_enabled(device: torch.device) -> bool:
    # The meta device, on which networks are measured without weights, knows no autocast.
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def _find_slots(layer: nn.Module) -> list[_Slot]:
    """Return the weights within `layer` that autocast casts."""
    if layer not in _SLOTS:
        slots = []
        for module in layer.modules():
            if type(module) not in _KINDS:
                continue
            for name, weight in module._parameters.items():
                # A layer without a bias has None instead.
                if weight is not None:
                    slots.append(_Slot(module, name))
        _SLOTS[layer] = slots
    return _SLOTS[layer]


def _cast_weights(dtype: torch.dtype, weights: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return casts of `weights`, in their order; those that rest get no gradient computed."""
    learning = [weight for weight in weights if weight.requires_grad]
    resting = [weight for weight in weights if not weight.requires_grad]
    of_learning = iter(_Cast.apply(dtype, *learning) if learning else ())
    of_resting = iter(_copy_together([weight.detach() for weight in resting], dtype))
    casts: list[Tensor] = []
    for weight in weights:
        casts.append(next(of_learning if weight.requires_grad else of_resting))
    return casts


class _Cast(torch.autograd.Function):
    """Tensors in another format, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return _copy_together(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [gradient for gradient in gradients if gradient is not None]
        copies = iter(_copy_together(present, torch.float32))
        # The first is the gradient of `dtype`.
        results: list[Tensor | None] = [None]
        for gradient in gradients:
            results.append(None if gradient is None else next(copies))
        return tuple(results)


def _copy_together(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    if not tensors:
        return ()
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)
