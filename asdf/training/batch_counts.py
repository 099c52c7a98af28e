"""The counters of batch norms, which count the minibatches of training, by one operation for all.

Invariant: after a forward pass each counter is what the norms themselves would have made of it,
those of norms that the pass did not compute included. To a GPU each norm's own addition is a launch
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from asdf.training.compiling import Compiled

_COUNTER = "num_batches_tracked"

# A search of a network's modules takes longer than the additions that it saves.
_NORMS: WeakKeyDictionary[nn.Module, list[_BatchNorm]] = WeakKeyDictionary()


class _Noted:
    """What a norm finds instead of its counter; it notes that it was to be increased."""

    def __init__(self, counter: Tensor, increased: dict[int, Tensor]) -> None:
        self._counter = counter
        self._increased = increased

    def add_(self, number: int) -> None:
        """Note an increase by `number`; a second one in the same pass is computed at once."""
        if id(self._counter) in self._increased:
            self._counter.add_(number)
        else:
            self._increased[id(self._counter)] = self._counter


@contextmanager
def batches_counted_together(network: nn.Module) -> Iterator[None]:
    """Let the batch norms that `network` computes in the block be counted at its end."""
    if network not in _NORMS:
        _NORMS[network] = _find_norms(network)
    increased: dict[int, Tensor] = {}
    for norm in _NORMS[network]:
        # Python finds an attribute of the object before a buffer of the module.
        counter = norm._buffers[_COUNTER]
        assert counter is not None
        norm.__dict__[_COUNTER] = _Noted(counter, increased)
    try:
        yield
    finally:
        for norm in _NORMS[network]:
            del norm.__dict__[_COUNTER]
        if increased:
            torch._foreach_add_(list(increased.values()), 1)


def _find_norms(network: nn.Module) -> list[_BatchNorm]:
    norms: list[_BatchNorm] = []
    for module in network.modules():
        if isinstance(module, Compiled):
            # A compiler makes the additions part of its own kernels.
            return []
        # Without a momentum, a norm reads its counter.
        if not isinstance(module, _BatchNorm) or module.momentum is None:
            continue
        if module._buffers.get(_COUNTER) is not None:
            norms.append(module)
    return norms
