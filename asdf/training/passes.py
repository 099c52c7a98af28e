"""The forward and the backward pass over a minibatch, and what they need besides the network.

Invariant: there is one computation. Whether its operations are queued one by one, as here, or were
captured in CUDA graphs (`asdf.training.graphs`), these two functions are what runs.

Shapes: B utterances.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asdf.data.training_plan import Window
from asdf.networks.outputs import as_outputs
from asdf.training.batch_counts import batches_counted_together
from asdf.training.losses import Targets
from asdf.training.objective import Objective
from asdf.training.precision import Precision


@dataclass(frozen=True)
class Passes:
    """The passes of a network; each `forward` is followed by its `backward`.

    Attributes:
        model: the network as training calls it.
    """

    model: nn.Module
    precision: Precision
    scaler: torch.amp.GradScaler
    objective: Objective

    def for_window(self, window: Window) -> Passes:
        """Return the passes that compute the minibatches of `window`."""
        return self

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the loss of each utterance, (batch,), in float32."""
        with self.precision.autocast(), batches_counted_together(self.model):
            outputs = as_outputs(self.model(clips))
        return self.objective.of_minibatch(outputs, targets)

    def backward(self, losses_B: Tensor, factor: float | Tensor) -> None:
        """Add the gradient of the sum of `losses_B` times `factor` to that of the parameters.

        Args:
            factor: a number or a 0-dimensional tensor.
        """
        # Of each loss at once: that of their sum is four operations that compute the same number.
        losses_B.backward(self.scaler.scale(torch.ones_like(losses_B) * factor))
