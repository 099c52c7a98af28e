"""Supervised contrastive loss over all utterances of a step, plus cross-entropy.

Shapes: N utterances of a step, E numbers in an embedding, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from asdf.training.losses.loss import Columns, Loss


class SupervisedContrastive(Loss):
    """Cross-entropy plus a supervised contrastive loss (Khosla et al., NeurIPS 2020, equation 2).

    The contrastive loss pulls embeddings of one class together and pushes the classes apart. It is
    computed over all utterances of the optimiser step, on all processes, and multiplied by
    `loss.contrastive_weight`; the cross-entropy trains the logits that are scored. Unlike in the
    paper, embeddings have no projection, and utterances have no second view.
    """

    is_joint = True

    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return the sums of both losses."""
        entropies_N = F.cross_entropy(logits_B2.float(), labels_B, reduction="none")
        contrasts_N = contrast(embeddings_BE, labels_B, self._options.contrastive_temperature)
        return entropies_N + self._options.contrastive_weight * contrasts_N


def contrast(embeddings_NE: Tensor, labels_N: Tensor, temperature: float) -> Tensor:
    """Return the supervised contrastive loss of each utterance, (utterances,), in float32 or more.

    It is minus the mean, over the others of its class, of the log probability of choosing them
    among all others by softmax of the cosines over `temperature`; 0 for the only utterance of its
    class.
    """
    kind = torch.promote_types(embeddings_NE.dtype, torch.float32)
    directions_NE = F.normalize(embeddings_NE.to(kind), dim=1)
    similarities_NN = directions_NE @ directions_NE.T / temperature
    is_itself_NN = torch.eye(len(labels_N), dtype=torch.bool, device=labels_N.device)
    without_itself_NN = similarities_NN.masked_fill(is_itself_NN, -torch.inf)
    log_sums_N = without_itself_NN.logsumexp(dim=1)
    is_same_NN = (labels_N[:, None] == labels_N[None, :]) & ~is_itself_NN
    count_N = is_same_NN.sum(dim=1)
    log_probabilities_NN = similarities_NN - log_sums_N[:, None]
    sums_N = torch.where(is_same_NN, log_probabilities_NN, 0.0).sum(dim=1)
    return -sums_N / count_N.clamp(min=1)
