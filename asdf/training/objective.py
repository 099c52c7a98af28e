"""What training minimises: the loss of detection, and further terms next to it.

Invariant: a step's loss is the mean of the detection loss plus the weighted mean of each term, each
over what counts in it. It is computed as one sum over utterances, divided by the normaliser of the
detection loss: a term's factor (`StepWeights`) makes up for the other normaliser. Without terms the
operations are those of the detection loss alone.

Shapes: B utterances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from asdf.networks.outputs import Outputs
from asdf.training.losses import Loss, Targets
from asdf.training.terms import Term


@dataclass(frozen=True)
class StepWeights:
    """How the values of an optimiser step's utterances are weighed; the same on all ranks.

    Attributes:
        normaliser: the denominator of the detection loss's mean.
        factors: Factors of a term's values in a sum that is divided by `normaliser`, by their
            names.
    """

    normaliser: float
    factors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Objective:
    """The loss of detection and further terms.

    Attributes:
        loss: Loss of detection.
        detection_weight: Weight that it is multiplied by.
    """

    loss: Loss
    terms: Sequence[Term] = ()
    detection_weight: float = 1.0

    def of_minibatch(self, outputs: Outputs, targets: Targets) -> Tensor:
        """Return the values of the utterances, (B,)."""
        return self.with_terms(self.detection(outputs, targets), outputs, targets)

    def detection(self, outputs: Outputs, targets: Targets) -> Tensor:
        """Return the weighted values of the detection loss, (B,)."""
        values_B = self.loss.of_minibatch(outputs, targets)
        # Not by 1: the operations without terms stay what they were.
        return values_B if self.detection_weight == 1 else self.detection_weight * values_B

    def with_terms(self, values_B: Tensor, outputs: Outputs, targets: Targets) -> Tensor:
        """Return values of the utterances with those of the terms added."""
        for term in self.terms:
            factor = targets.terms[term.name].factor
            values_B = values_B + factor * term.of_minibatch(outputs, targets)
        return values_B

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of the detection loss."""
        return self.loss.parameters()
