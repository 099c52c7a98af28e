"""Cross-entropy of the logits, with label smoothing, as a likelihood ratio, and focal.

Shapes: B utterances, E numbers in an embedding, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from asdf.training.losses.loss import Columns, Loss
from asdf.training.training_sections import TrainingSections


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

    def __init__(self, settings: TrainingSections, dimension: int) -> None:
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
