"""The base class of losses: a value per utterance, optional parameters, and scored logits.

Shapes: B utterances, E numbers in an embedding, 2 classes (spoof, bona fide).

The base class of further loss terms: targets, a value per utterance, and its count.

Invariant: a term is a sum over utterances, divided by a number that depends on the utterances of
the whole optimiser step. A step is therefore independent of its division into minibatches and among
processes.

Shapes: B utterances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from asdf.networks.attached import ScoringLoss
from asdf.networks.interface import Outputs
from asdf.settings.sections import Sections

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


# Values of the trial list by column name, one per utterance.
Columns = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class TermTargets:
    """The targets of a minibatch's utterances for a further term of the loss.

    Attributes:
        values: Targets of the term, (batch, ...), on the network's device.
        factor: Factor of the term's value of an utterance relative to the detection loss, ().
    """

    values: Tensor
    factor: Tensor


@dataclass(frozen=True)
class Targets:
    """The targets of a minibatch's utterances.

    Attributes:
        labels_B: Labels, 1 bona fide, 0 spoof; int64, on the network's device.
        columns: Columns that the loss needs.
        terms: Targets of the further loss terms, by name.
        partners: Targets of the utterances that these are mixed with (`asdf.data.batches`); None
            without mixup.
        weights_B: Weights of the utterances themselves, float32; the partners have the remainder.
        inputs: Further inputs of the network, by name (`DetectorNetwork.further_inputs`).
        lengths_B: Number of samples of each recording if minibatches are padded; else None.
    """

    labels_B: Tensor
    columns: Columns = field(default_factory=dict)
    terms: Mapping[str, TermTargets] = field(default_factory=dict)
    partners: Targets | None = None
    weights_B: Tensor | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    lengths_B: Tensor | None = None

    def first(self, utterances: int) -> Targets:
        """Return the targets of the first utterances."""
        labels_B = self.labels_B[:utterances]
        columns = {name: values[:utterances] for name, values in self.columns.items()}
        terms = {
            name: replace(term, values=term.values[:utterances])
            for name, term in self.terms.items()
        }
        partners = None if self.partners is None else self.partners.first(utterances)
        weights_B = None if self.weights_B is None else self.weights_B[:utterances]
        lengths_B = None if self.lengths_B is None else self.lengths_B[:utterances]
        return Targets(labels_B, columns, terms, partners, weights_B, lengths_B=lengths_B)


class Loss(ScoringLoss, ABC):
    """Base class of losses per utterance, the project's and your own.

    Set `network.loss = 'my_loss.MyLoss'` to use yours, with `my_loss.py` in the recipe's folder.

    Parameters and buffers are saved with the network's, under `trained_loss`. The parameters are
    trained like the network's, with `network.initial_learning_rate`.

    A constructor `__init__(self, settings, dimension, values)` gets the sorted values of its
    `columns` in the training list, by name, for example for a weight per attack. A network file
    stores them.

    Attributes:
        columns: Columns of the trial list whose values `per_utterance` gets, such as ('attack',).
        needs_embeddings: Whether the loss is computed from the embeddings; it then gets their
            dimension, and parameters of the network that it does not depend on are frozen.
        is_joint: Whether an utterance's value depends on the others; `per_utterance` then gets all
            utterances of the optimiser step, of all minibatches and processes.
        takes_lengths: Whether `per_utterance` takes `lengths_B` by keyword: the samples of each
            recording if minibatches are padded, else None; never for whole steps.
        class_weights_2: Weights of the classes, `network.class_weights`, which multiply the values.

    Examples:
        >>> import torch
        >>> from asdf.settings import Sections
        >>> from asdf.training.losses import Loss
        >>> class MyLoss(Loss):
        ...     def __init__(self, settings, dimension):
        ...         super().__init__(settings, dimension)
        ...         self.centre_E = torch.nn.Parameter(torch.zeros(dimension))
        ...
        ...     def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        ...         distances_B = (embeddings_BE - self.centre_E).norm(dim=1)
        ...         return torch.where(labels_B == 1, distances_B, 1 / (1 + distances_B))
        ...
        ...     def logits(self, embeddings_BE, logits_B2):
        ...         distances_B = (embeddings_BE - self.centre_E).norm(dim=1)
        ...         return torch.stack([distances_B, -distances_B], dim=1)
        >>> loss = MyLoss(Sections(), dimension=2)
        >>> embeddings_BE = torch.tensor([[3.0, 4.0], [3.0, 4.0]])
        >>> loss.per_utterance(embeddings_BE, None, torch.tensor([1, 0]), {}).tolist()[0]
        5.0
    """

    columns: ClassVar[tuple[str, ...]] = ()
    needs_embeddings: ClassVar[bool] = True
    is_joint: ClassVar[bool] = False
    takes_lengths: ClassVar[bool] = False
    class_weights_2: Tensor

    def __init__(self, settings: Sections, dimension: int) -> None:
        """Build the loss; random weights are drawn from torch's default generator.

        Args:
            settings: Sections of the settings, as plain dataclasses.
            dimension: Number of values in an embedding; 0 for a class that does not use it.
        """
        super().__init__(settings, dimension)
        self._options = settings.loss
        self._class_weights = settings.network.class_weights
        weights_2 = torch.tensor(self._class_weights, dtype=torch.float32)
        self.register_buffer("class_weights_2", weights_2, persistent=False)

    @abstractmethod
    def per_utterance(
        self, embeddings_BE: Tensor, logits_B2: Tensor, labels_B: Tensor, columns: Columns
    ) -> Tensor:
        """Return a value per utterance, (batch,), before class weights; the step takes their mean.

        Args:
            embeddings_BE: Embeddings of the network, in the number format of training.
            logits_B2: Logits as returned by `logits`, column 1 for bona fide.
            labels_B: Labels, 1 bona fide, 0 spoof.
            columns: Values of the trial list for the columns in the attribute `columns`.
        """

    def begin_training(self, labels: Tensor) -> None:
        """Prepare for the first step of a run, new or resumed.

        Args:
            labels: Labels of the utterances with a turn in the first epoch, on the CPU.
        """

    def begin_step(self, epochs: float) -> None:
        """Prepare for a step, for example set a margin.

        A resumed run calls this only for the steps that it takes.

        Args:
            epochs: Epochs trained so far, such as 1.5 in the middle of the second one.
        """

    def of_minibatch(self, outputs: Outputs, targets: Targets) -> Tensor:
        """Return the weighted values of the utterances, (batch,), mixed for mixed utterances."""
        values_B = self._weighted(outputs, targets)
        if targets.partners is None or targets.weights_B is None:
            return values_B
        others_B = self._weighted(outputs, targets.partners)
        return targets.weights_B * values_B + (1 - targets.weights_B) * others_B

    def _weighted(self, outputs: Outputs, targets: Targets) -> Tensor:
        embeddings_BE, logits_B2 = outputs
        labels_B = targets.labels_B
        lengths = {"lengths_B": targets.lengths_B} if self.takes_lengths else {}
        values_B = self.per_utterance(
            embeddings_BE, logits_B2, labels_B, targets.columns, **lengths
        )
        return values_B * self.class_weights_2[labels_B]

    def normaliser(self, labels: Tensor) -> float:
        """Return the denominator of a step's mean: the sum of the weights of `labels`.

        PyTorch's weighted mean divides by this sum within each minibatch, so its gradient depends
        on the division into minibatches.

        Args:
            labels: Labels of all utterances of the step, on the CPU.
        """
        weights_2 = torch.tensor(self._class_weights, dtype=torch.float64)
        return float(weights_2[labels.long()].sum())

    def mixed_normaliser(self, labels: Tensor, partners: Tensor, weights: Tensor) -> float:
        """Return the denominator of a step's mean over mixed utterances, all (utterances,).

        Args:
            partners: Labels of the utterances that are mixed in.
            weights: Weights of the utterances themselves.
        """
        classes = [self.normaliser(torch.tensor([label])) for label in (0, 1)]
        per_class = torch.tensor(classes, dtype=torch.float64)
        exact = weights.double()
        mixed = exact * per_class[labels] + (1 - exact) * per_class[partners]
        return float(mixed.sum())
