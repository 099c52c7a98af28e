"""The forward and the backward pass over a minibatch, and what they need beside the network.

Invariant: there is one computation. Whether its operations are queued one by one, as here, or were
captured in CUDA graphs (`asdf.training.graphs`), these two functions are what runs.

Shapes: B utterances.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asdf.data.training_plan import Window
from asdf.training.loss import cross_entropies
from asdf.training.precision import Precision


@dataclass(frozen=True)
class Passes:
    """Each `forward` is followed by its `backward`.

    Attributes:
        model: the network as training calls it.
        class_weights_2: on the network's device.
    """

    model: nn.Module
    precision: Precision
    scaler: torch.amp.GradScaler
    class_weights_2: Tensor

    def for_window(self, window: Window) -> Passes:
        """What computes the minibatches of `window`."""
        return self

    def forward(self, clips: Tensor, labels_B: Tensor) -> Tensor:
        """The weighted cross-entropy of each utterance, (batch,), in float32."""
        with self.precision.autocast():
            _, logits_B2 = self.model(clips)
        return cross_entropies(logits_B2, labels_B, self.class_weights_2)

    def backward(self, losses_B: Tensor, factor: float | Tensor) -> None:
        """Add the gradient of the sum of `losses_B` times `factor`, a number or 0-dimensional, to the parameters'."""
        self.scaler.scale(losses_B.sum() * factor).backward()
