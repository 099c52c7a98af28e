"""The base class of further loss terms: targets, a value per utterance, and its count.

Invariant: a term is a sum over utterances, divided by a number that depends on the utterances of
the whole optimiser step. A step is therefore independent of its division into minibatches and among
processes.

Shapes: B utterances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from asdf.networks.interface import Outputs
from asdf.training.losses import Targets

CLIPS = "clips"
FEATURES = "features"

# The epoch, or its replacement in the random draws of a clip, and the utterance's index.
ClipKey = tuple[int, int]


class Term(ABC):
    """A term of the loss, added to the loss of detection.

    The loss of a step is the mean of the detection loss, plus `weight` times the mean of this term:
    the sum of `per_utterance` over the step, divided by the sum of `counts`.

    Attributes:
        name: Name of the term, for its targets and its mean.
        weight: Weight of the term.
        needs: Names of entries that `per_utterance` needs in `outputs.extras` besides the heads'
            values: 'clips', the waveforms of the minibatch (B, samples); 'features', the output of
            the front end, (B, frames, dimension), or (B, layers, frames, dimension) if layers are
            weighted after it; and 'lengths' (B,), the samples of each recording, if these vary
            (`lengths`).

    Examples:
        >>> import torch
        >>> from torch.nn.functional import cross_entropy
        >>> from asdf.networks import Outputs
        >>> from asdf.tasks import Term
        >>> class SpeakerTerm(Term):
        ...     name = "speakers"
        ...     weight = 0.1
        ...     speakers = torch.tensor([0, 2, 1])  # of the utterances of the training list
        ...
        ...     def targets_of(self, keys):
        ...         return self.speakers[[index for _, index in keys]]
        ...
        ...     def counts(self, targets):
        ...         return torch.ones(len(targets), dtype=torch.float64)
        ...
        ...     def per_utterance(self, outputs, targets):
        ...         return cross_entropy(outputs.extras["speakers"], targets, reduction="none")
        >>> term = SpeakerTerm()
        >>> targets = term.targets_of([(1, 2), (1, 0)])  # epoch and index of two utterances
        >>> logits = torch.tensor([[-9.0, 9.0, -9.0], [9.0, -9.0, -9.0]])
        >>> outputs = Outputs(torch.zeros(2, 8), torch.zeros(2, 2), {"speakers": logits})
        >>> term.per_utterance(outputs, targets).shape
        torch.Size([2])
    """

    name: ClassVar[str]
    weight: float
    needs: ClassVar[tuple[str, ...]] = ()

    def begin_step(self, epochs: float) -> None:  # noqa: B027 (most terms need nothing)
        """Prepare for a step, for example set the weight or the strength of a head.

        A resumed run calls this only for the steps that it takes, so it must depend only on
        `epochs`.

        Args:
            epochs: Epochs trained so far, such as 1.5 in the middle of the second one.
        """

    @abstractmethod
    def targets_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return the targets of the clips with these keys, (clips, ...), on the CPU.

        They depend only on the training list and the keys, which all ranks know.

        Args:
            keys: Keys as in `Share.clip_keys`.
        """

    @abstractmethod
    def counts(self, targets: Tensor) -> Tensor:
        """Return how much each utterance counts in the mean, (utterances,) float64, on the CPU.

        Args:
            targets: Targets as returned by `targets_of`.
        """

    @abstractmethod
    def per_utterance(self, outputs: Outputs, targets: Tensor) -> Tensor:
        """Return a value per utterance, (B,); 0 for one that does not count.

        Args:
            outputs: Outputs of the network, in the number format of training.
            targets: Targets as returned by `targets_of`, on the network's device.
        """

    def of_minibatch(self, outputs: Outputs, targets: Targets) -> Tensor:
        """Return the values of the utterances, (B,), mixed for mixed utterances."""
        values_B = self.per_utterance(outputs, targets.terms[self.name].values)
        if targets.partners is None or targets.weights_B is None:
            return values_B
        others_B = self.per_utterance(outputs, targets.partners.terms[self.name].values)
        return targets.weights_B * values_B + (1 - targets.weights_B) * others_B
