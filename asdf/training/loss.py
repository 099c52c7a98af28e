"""The training loss: cross-entropy with class weights, normalised over a whole optimiser step.

Shapes: B utterances, E numbers in an embedding, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Loss(Protocol):
    """A loss per utterance, and what their sum over an optimiser step is divided by.

    Both are functions of single utterances, so the gradient of a step does not depend on how the
    step is divided into minibatches and among processes.
    """

    def per_utterance(self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor) -> Tensor:
        """Return the losses of a minibatch, (batch,), in float32; all on one device."""

    def normaliser(self, labels: Tensor) -> float:
        """Return the denominator of the mean over the utterances of a step, from their labels."""


class CrossEntropy:
    """The cross-entropy of the logits with a weight per class.

    Args:
        class_weights: of spoof and of bona fide utterances.
        device: the network's.
    """

    def __init__(self, class_weights: tuple[float, float], device: torch.device) -> None:
        self._class_weights = class_weights
        self._class_weights_2 = torch.tensor(class_weights, dtype=torch.float32, device=device)

    def per_utterance(self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor) -> Tensor:
        """Return the weighted cross-entropies; the embeddings do not matter."""
        return cross_entropies(logits_B2, labels_B, self._class_weights_2)

    def normaliser(self, labels: Tensor) -> float:
        """Return the sum of the weights of `labels` (utterances,).

        PyTorch's weighted mean divides by this sum within one minibatch, so there the gradient
        would depend on the division into minibatches.
        """
        weights_2 = torch.tensor(self._class_weights, dtype=torch.float64)
        return float(weights_2[labels.long()].sum())


def cross_entropies(logits_B2: Tensor, labels_B: Tensor, class_weights_2: Tensor) -> Tensor:
    """Return the weighted cross-entropy of each utterance, (batch,), in float32."""
    unweighted_B = F.cross_entropy(logits_B2.float(), labels_B, reduction="none")
    return unweighted_B * class_weights_2[labels_B]
