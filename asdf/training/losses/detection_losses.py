"""The losses of detection: cross-entropy, cosines to learned vectors, and a contrastive one.

Vectors are parameters of their loss, and the cosines are the logits. All are computed in float32,
even if the network computes in fewer bits.

Shapes: B utterances, N utterances of a step, E numbers in an embedding, 2 classes (spoof, bona
fide), V vectors.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.networks.casting import without_autocast
from asdf.settings.sections import Sections
from asdf.training.losses.loss import Columns, Loss

# Minimum for sin(arccos(cos)), whose slope is infinite at a cosine of 1 or -1.
_MIN_SQUARED_SINE = 1e-9


class CrossEntropy(Loss):
    """Cross-entropy, with `loss.label_smoothing` (Szegedy et al., CVPR 2016).

    With smoothing s, the target is 1 - s / 2 for the true class and s / 2 for the other one.
    """

    needs_embeddings = False

    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return the cross-entropies in float32; the embeddings are not used."""
        smoothing = self._options.label_smoothing
        return F.cross_entropy(
            logits_B2.float(), labels_B, reduction="none", label_smoothing=smoothing
        )


class LikelihoodRatio(CrossEntropy):
    """Cross-entropy of a network whose difference of logits is a log-likelihood ratio.

    A network trained with cross-entropy estimates the log posterior odds of its training data. The
    prior odds are subtracted from them here (Brümmer & du Preez, Computer Speech & Language 2006):
    those of the class counts of an epoch, multiplied by `network.class_weights`.

    Attributes:
        log_priors_2: Log priors of spoof and bona fide, saved with the network.
    """

    gives_likelihood_ratios = True
    log_priors_2: Tensor

    def __init__(self, settings: Sections, dimension: int) -> None:
        super().__init__(settings, dimension)
        self.register_buffer("log_priors_2", torch.zeros(2))

    def begin_training(self, labels: Tensor) -> None:
        """Compute the priors from the classes of an epoch's turns."""
        counts_2 = torch.bincount(labels.long(), minlength=2).double()
        weights_2 = torch.tensor(self._class_weights, dtype=torch.float64)
        shares_2 = counts_2 * weights_2
        self.log_priors_2.copy_((shares_2 / shares_2.sum()).log())

    def logits(self, embeddings_BE: Tensor, logits_B2: Tensor) -> Tensor:
        """Return the network's logits without the priors, in float32."""
        return logits_B2.float() - self.log_priors_2

    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return the cross-entropies of the posteriors, which include the priors."""
        posterior_B2 = logits_B2 + self.log_priors_2
        return super().per_utterance(embeddings_BE, posterior_B2, labels_B, columns)


class Focal(Loss):
    """Focal loss (Lin et al., "Focal loss for dense object detection", ICCV 2017, equation 4).

    It is -(1 - p) ** gamma * log(p), where p is the probability of the true class and gamma
    `loss.focal_gamma`. The paper's alpha is `network.class_weights`.
    """

    needs_embeddings = False

    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return the losses in float32; the embeddings are not used."""
        logits_B2 = logits_B2.float()
        entropies_B = F.cross_entropy(logits_B2, labels_B, reduction="none")
        # The probability of the other class, without the rounding error of 1 - p.
        others_B = logits_B2.softmax(dim=1).gather(1, (1 - labels_B).unsqueeze(1)).squeeze(1)
        return others_B**self._options.focal_gamma * entropies_B


class _Cosine(Loss):
    """A loss with a vector for each class.

    Attributes:
        weight_2E: Vectors of the classes, of any length.
    """

    def __init__(self, settings: Sections, dimension: int) -> None:
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

    def __init__(self, settings: Sections, dimension: int) -> None:
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
    rise again, it counts as cos - (1 - cos m), as in speaker recognition.
    """

    def harder(self, cosines_B2: Tensor) -> Tensor:
        """Return cos(angle + m)."""
        sines_B2 = (1 - cosines_B2**2).clamp(min=_MIN_SQUARED_SINE).sqrt()
        with_margin_B2 = cosines_B2 * self.margin.cos() - sines_B2 * self.margin.sin()
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

    def __init__(self, settings: Sections, dimension: int) -> None:
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
