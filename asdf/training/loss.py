"""The training loss: cross-entropy with class weights, normalised over a whole optimiser step."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropies(logits_B2: Tensor, labels_B: Tensor, class_weights_2: Tensor) -> Tensor:
    """The weighted cross-entropy of each utterance, (batch,), in float32; all on one device."""
    return (
        F.cross_entropy(logits_B2.float(), labels_B, reduction="none") * class_weights_2[labels_B]
    )


def normaliser(labels: Tensor, class_weights: tuple[float, float]) -> float:
    """The sum of the weights of `labels` (utterances,): the denominator of the mean over an optimiser step.

    PyTorch's weighted mean divides by this sum within one minibatch; taken over the whole step, the gradient does not
    depend on how the step is divided into minibatches and among processes.
    """
    return float(torch.tensor(class_weights, dtype=torch.float64)[labels.long()].sum())
