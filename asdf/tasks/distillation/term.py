"""Loss term by which a student learns a teacher's scores and embeddings.

Invariant: the value of an utterance depends only on that utterance and the weights, so it is the
same in any division of a step into minibatches and processes.

Source: Hinton et al., "Distilling the Knowledge in a Neural Network", NIPS workshop 2014, equation
1 and section 2.1, for two classes.

Shapes: B utterances, S numbers in an embedding of the student, E in one of the teacher.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from asdf.errors import UsageError
from asdf.networks.interface import Outputs
from asdf.training.terms import ClipKey, Term

KEY = "distillation"
# Seed of the fixed projection of embeddings.
_SEED = 20141217


class TeacherTerm(Term):
    """Cross-entropy of softened scores, plus 1 minus the cosine of embeddings.

    Args:
        score_weight, embedding_weight: Weights of the two parts in the value of an utterance.
        temperature: Divisor of both differences of logits. The cross-entropy is multiplied by its
            square, so that the scale of gradients does not depend on it.
    """

    name = KEY
    weight = 1.0

    def __init__(self, score_weight: float, embedding_weight: float, temperature: float) -> None:
        self.score_weight = score_weight
        self.embedding_weight = embedding_weight
        self.temperature = temperature

    def targets_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return an empty target: the teacher hears the clips in the forward pass."""
        return torch.zeros(len(keys))

    def counts(self, targets: Tensor) -> Tensor:
        """Return 1 for each utterance."""
        return torch.ones(len(targets), dtype=torch.float64)

    def per_utterance(self, outputs: Outputs, targets: Tensor) -> Tensor:
        """Return the values of the utterances, (B,).

        Raises:
            UsageError: the student's embeddings are not (batch, numbers).
        """
        of_teacher = outputs.extras[KEY]
        values_B = torch.zeros(len(of_teacher), device=of_teacher.device)
        if self.score_weight:
            values_B = values_B + self.score_weight * self._of_scores(outputs, of_teacher[:, 0])
        if self.embedding_weight:
            if not isinstance(outputs.embeddings, Tensor) or outputs.embeddings.dim() != 2:
                raise UsageError(
                    "distillation.embedding_weight: this network's embeddings are not (batch, "
                    "numbers). Set it to 0 to learn only the teacher's scores."
                )
            aims_BS = projected(of_teacher[:, 1:], outputs.embeddings.shape[1])
            cosines_B = F.cosine_similarity(outputs.embeddings.float(), aims_BS, dim=1)
            values_B = values_B + self.embedding_weight * (1 - cosines_B)
        return values_B

    def _of_scores(self, outputs: Outputs, differences_B: Tensor) -> Tensor:
        """Return the cross-entropy of the student's probabilities with the teacher's."""
        logits_B2 = outputs.logits_B2.float()
        own_B = (logits_B2[:, 1] - logits_B2[:, 0]) / self.temperature
        aims_B = (differences_B / self.temperature).sigmoid()
        # From logits, since a sigmoid that is rounded to 0 has an infinite logarithm.
        losses_B = F.binary_cross_entropy_with_logits(own_B, aims_B, reduction="none")
        return self.temperature**2 * losses_B


def projected(embeddings_BE: Tensor, size: int) -> Tensor:
    """Return a teacher's embeddings in `size` dimensions, (B, S).

    They are unchanged if the sizes agree. Otherwise a fixed matrix with orthonormal rows or columns
    projects them: it roughly preserves angles between embeddings, while a trained projection could
    learn to be uninformative.
    """
    dimension = embeddings_BE.shape[1]
    if dimension == size:
        return embeddings_BE
    # On the CPU, since a GPU draws other numbers from the same seed.
    generator = torch.Generator().manual_seed(_SEED)
    long, short = max(dimension, size), min(dimension, size)
    drawn = torch.randn(long, short, generator=generator, dtype=torch.float64)
    orthonormal, _ = torch.linalg.qr(drawn)
    matrix: Tensor = orthonormal if dimension >= size else orthonormal.T  # (E, S)
    return embeddings_BE @ matrix.float().to(embeddings_BE.device)
