"""The forward and the backward pass over a minibatch.

Invariants: there is one computation. Whether its operations are launched one by one, as here, or
captured in CUDA graphs (`asdf.training.captured_passes`), the two functions of `Passes` are run.
After a forward pass, each batch norm's counter has the value that the norm itself would have set,
including norms that the pass did not compute; adding to each counter separately would cost a launch
per norm on a GPU.

Shapes: B utterances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from asdf.data.training_plan import Window
from asdf.networks.interface import Outputs, as_outputs
from asdf.training.compiling import Compiled
from asdf.training.losses import Targets
from asdf.training.objective import Objective
from asdf.training.training_precision import Precision

_COUNTER = "num_batches_tracked"

# Searching a network's modules takes longer than the additions that it saves.
_NORMS: WeakKeyDictionary[nn.Module, list[_BatchNorm]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Passes:
    """The passes of a network; each `forward` is followed by its `backward`.

    Attributes:
        model: Network as it is called in training.
    """

    model: nn.Module
    precision: Precision
    scaler: torch.amp.GradScaler
    objective: Objective

    @property
    def eager(self) -> Passes:
        """The passes without CUDA graphs, which are these."""
        return self

    def for_window(self, window: Window) -> Passes:
        """Return the passes that compute the minibatches of `window`."""
        return self

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the loss of each utterance, (batch,), in float32."""
        return self.objective.of_minibatch(self.outputs(clips, targets.inputs), targets)

    def outputs(self, clips: Tensor, inputs: Mapping[str, Any] | None = None) -> Outputs:
        """Return the outputs of the network, in the number format of training.

        Args:
            inputs: Further inputs of the network, by name.
        """
        with self.precision.autocast(), batches_counted_together(self.model):
            outputs = as_outputs(self.model(clips, **(inputs or {})))
        return self.objective.with_clips(outputs, clips)

    def backward(self, losses_B: Tensor, factor: float | Tensor) -> None:
        """Add the gradient of the sum of `losses_B` times `factor` to that of the parameters.

        Args:
            factor: Factor of the losses, a number or a 0-dimensional tensor.
        """
        # Gradients for each loss at once, since a sum takes four more operations for the same
        # result.
        losses_B.backward(self.scaler.scale(torch.ones_like(losses_B) * factor))


class _Noted:
    """A replacement for a norm's counter, which records increments."""

    def __init__(self, counter: Tensor, increased: dict[int, Tensor]) -> None:
        self._counter = counter
        self._increased = increased

    def add_(self, number: int) -> None:
        """Record an increment by `number`; a second one in the same pass is added at once."""
        if id(self._counter) in self._increased:
            self._counter.add_(number)
        else:
            self._increased[id(self._counter)] = self._counter


@contextmanager
def batches_counted_together(network: nn.Module) -> Iterator[None]:
    """Count the batch norms that `network` computes in the block together at its end."""
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
            # A compiler fuses the additions into its own kernels.
            return []
        # Without a momentum, a norm reads its counter.
        if not isinstance(module, _BatchNorm) or module.momentum is None:
            continue
        if module._buffers.get(_COUNTER) is not None:
            norms.append(module)
    return norms
