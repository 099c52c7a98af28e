"""The losses of detection and their base class, and the base class of further loss terms.

A loss gives a value per utterance, optional parameters, and scored logits. Ours are cross-entropy,
cosines to learned vectors, which are parameters of their loss and whose cosines are the logits, and
a contrastive one. All are computed in float32, even if the network computes in fewer bits.

Invariant: a term is a sum over utterances, divided by a number that depends on the utterances of
the whole optimiser step. A step is therefore independent of its division into minibatches and among
processes.

Shapes: B utterances, N utterances of a step, E numbers in an embedding, 2 classes (spoof, bona
fide), V vectors.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.networks.attached import ScoringLoss
from asdf.networks.casting import without_autocast
from asdf.networks.interface import Outputs
from asdf.settings.sections import Sections

CLIPS = "clips"
FEATURES = "features"
# Minimum for sin(arccos(cos)), whose slope is infinite at a cosine of 1 or -1.
_MIN_SQUARED_SINE = 1e-9

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
