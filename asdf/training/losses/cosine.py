"""Losses of cosines between embeddings and learned vectors; the cosines are the logits.

The vectors are parameters of the loss. Cosines and losses are computed in float32, even if the
network computes in fewer bits.

Shapes: B utterances, E numbers in an embedding, 2 classes (spoof, bona fide), V vectors.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.networks.autocast import without_autocast
from asdf.training.losses.loss import Columns, Loss
from asdf.training.training_sections import TrainingSections

# Minimum for sin(arccos(cos)), whose slope is infinite at a cosine of 1 or -1.
_MIN_SQUARED_SINE = 1e-9


class _Cosine(Loss):
    """A loss with a vector for each class.

    Attributes:
        weight_2E: Vectors of the classes, of any length.
    """

    def __init__(self, settings: TrainingSections, dimension: int) -> None:
        super().__init__(settings, dimension)
        self.weight_2E = nn.Parameter(_draw_vectors(2, dimension))

    def logits(self, embeddings_BE: Tensor, logits_B2: Tensor) -> Tensor:
        """Return the cosines with the vectors of the classes, in float32."""
        return _cosines(embeddings_BE, self.weight_2E)


class _Margin(_Cosine):
    """Cross-entropy of scaled cosines, with a margin that makes the true class harder.

    `loss.scale` multiplies the cosines. The margin is `loss.margin`, or rises to it from 0 over the
    first `loss.margin_warmup_epochs`.
    """

    margin: Tensor

    def __init__(self, settings: TrainingSections, dimension: int) -> None:
        super().__init__(settings, dimension)
        # A tensor, which a captured step reads anew. It depends only on the epoch and is not saved.
        margin = torch.tensor(settings.loss.margin, dtype=torch.float32)
        self.register_buffer("margin", margin, persistent=False)

    def begin_step(self, epochs: float) -> None:
        """Set the margin of the step."""
        proportion = 1.0
        if epochs < self._options.margin_warmup_epochs:
            proportion = epochs / self._options.margin_warmup_epochs
        self.margin.fill_(proportion * self._options.margin)

    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return the cross-entropies of the cosines with a margin."""
        is_true_B2 = F.one_hot(labels_B, 2).bool()
        scaled_B2 = self._options.scale * torch.where(is_true_B2, self.harder(logits_B2), logits_B2)
        return F.cross_entropy(scaled_B2, labels_B, reduction="none")

    @abstractmethod
    def harder(self, cosines_B2: Tensor) -> Tensor:
        """Return the cosines with the margin, as if each class were the true one."""


class AMSoftmax(_Margin):
    """Additive-margin softmax (Wang et al., IEEE Signal Processing Letters 2018, equation 6).

    The cosine of the true class counts as cos - m. Anti-spoofing has used a scale of 20 and a
    margin of 0.9 (Wang & Yamagishi, Interspeech 2021).
    """

    def harder(self, cosines_B2: Tensor) -> Tensor:
        """Return cos - m."""
        return cosines_B2 - self.margin


class AAMSoftmax(_Margin):
    """Additive-angular-margin softmax (Deng et al., "ArcFace", CVPR 2019, equation 3).

    The cosine of the true class counts as cos(angle + m). For angle + m above pi, where this would
    rise again, it counts as cos - (1 - cos m), as in speaker recognition. With `loss.easy_margin`,
    the margin applies only to angles below pi / 2.
    """

    def harder(self, cosines_B2: Tensor) -> Tensor:
        """Return cos(angle + m)."""
        sines_B2 = (1 - cosines_B2**2).clamp(min=_MIN_SQUARED_SINE).sqrt()
        with_margin_B2 = cosines_B2 * self.margin.cos() - sines_B2 * self.margin.sin()
        if self._options.easy_margin:
            return torch.where(cosines_B2 > 0, with_margin_B2, cosines_B2)
        is_within = cosines_B2 > -self.margin.cos()
        beyond_B2 = cosines_B2 - (1 - self.margin.cos())
        return torch.where(is_within, with_margin_B2, beyond_B2)


class P2SGrad(_Cosine):
    """Mean squared error of cosines (Wang & Yamagishi, Interspeech 2021, equation 8).

    The target of the cosine is 1 with the true class and 0 with the other one; there are no
    hyperparameters. Its gradient is that of P2SGrad (Zhang et al., CVPR 2019).
    """

    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return the mean of the squared errors of both classes."""
        aims_B2 = F.one_hot(labels_B, 2).to(logits_B2.dtype)
        return ((logits_B2 - aims_B2) ** 2).mean(dim=1)


class OCSoftmax(Loss):
    """One-class softmax (Zhang et al., IEEE Signal Processing Letters 2021, equation 4).

    One vector represents bona fide speech. With its cosine c, the loss is softplus(alpha (m1 - c))
    for bona fide utterances and softplus(alpha (c - m0)) for spoofs: bona fide speech is pulled
    above a cosine of m1, `loss.oc_margin_bona_fide`, and spoofs below m0, `loss.oc_margin_spoof`.

    Attributes:
        weight_1E: Vector of bona fide speech, of any length.
    """

    def __init__(self, settings: TrainingSections, dimension: int) -> None:
        super().__init__(settings, dimension)
        self.weight_1E = nn.Parameter(_draw_vectors(1, dimension))

    def logits(self, embeddings_BE: Tensor, logits_B2: Tensor) -> Tensor:
        """Return minus the cosine as the logit of spoof, and the cosine as that of bona fide."""
        cosines_B1 = _cosines(embeddings_BE, self.weight_1E)
        return torch.cat([-cosines_B1, cosines_B1], dim=1)

    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return the softplus of the distance of each cosine on the wrong side of its margin."""
        cosines_B = logits_B2[:, 1]
        options = self._options
        of_bona_fide_B = options.oc_margin_bona_fide - cosines_B
        of_spoof_B = cosines_B - options.oc_margin_spoof
        return F.softplus(options.oc_alpha * torch.where(labels_B == 1, of_bona_fide_B, of_spoof_B))


def _draw_vectors(count: int, dimension: int) -> Tensor:
    """Return random vectors of approximate length 1, (count, dimension)."""
    return torch.randn(count, dimension) / math.sqrt(dimension)


def _cosines(embeddings_BE: Tensor, weight_VE: Tensor) -> Tensor:
    """Return the cosines between embeddings and vectors, (B, V), in float32 or more."""
    kind = torch.promote_types(embeddings_BE.dtype, weight_VE.dtype)
    with without_autocast(embeddings_BE):
        directions_BE = F.normalize(embeddings_BE.to(kind), dim=1)
        return directions_BE @ F.normalize(weight_VE.to(kind), dim=1).T
