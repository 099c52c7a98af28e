"""The objective of training: the detection loss plus further terms, and the targets of a step.

Checks that a step can be computed, and the error if it does not fit into memory, come first.

Invariants: a step's loss is the mean of the detection loss plus the weighted mean of each term,
each over the utterances that count in it. It is computed as one sum over utterances, divided by the
normaliser of the detection loss; a term's factor (`StepWeights`) corrects for its own normaliser.
Without terms, the operations are those of the detection loss alone.

Targets depend only on the training list and the keys of the clips, which all ranks know. The
denominators of a step's means are therefore equal on all ranks, without communication.

The loss on the trials of a list (`LossOnTrials`) changes neither scores nor training, and depends
neither on earlier batches nor on the number of processes: it has no gradients, and each batch
starts from the buffers of training's last step and leaves them unchanged.

Shapes: B utterances of a batch, N trials of a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.batches import LENGTHS, Mixtures, Mixup, find_mixup
from asdf.data.datasets import ClipFrames
from asdf.data.training_plan import Share, Window
from asdf.distributed.gpus import send
from asdf.errors import AsdfError, UsageError
from asdf.networks.attached import loss_of
from asdf.networks.back_ends.back_end import BackEnd, masks_no_padding
from asdf.networks.interface import COLUMNS, Outputs, fixed_samples, further_inputs, input_columns
from asdf.networks.output_check import numbers_unchanged
from asdf.networks.ssl_detector import SSLDetector
from asdf.runs.log import LOG
from asdf.scoring.computing import memory_errors_as
from asdf.scoring.scorer import Computed
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import describe_error
from asdf.settings.sections import Network, Sections
from asdf.training.losses import Loss, Targets, TermTargets
from asdf.training.losses.loss import CLIPS, FEATURES, ClipKey, Term
from asdf.trials.trial_list import UNLABELLED, TrialList, values_at

# Where our losses count as being: saved parts of a validation are of the loss of this name.
_HOME_OF_OURS = "asdf.training.losses.detection_losses"


def inputs_in_training(network: nn.Module, settings: Sections) -> tuple[str, ...]:
    """Return the names of the network's inputs besides waveforms."""
    names = further_inputs(network)
    # Even without masks, our front ends need the lengths to normalise recordings.
    knows_lengths = settings.lengths.masks or isinstance(network, SSLDetector)
    gives_lengths = settings.lengths.minibatch_s is not None and knows_lengths
    return tuple(name for name in names if name != LENGTHS or gives_lengths)


def check_inputs(
    network: nn.Module, utterances: TrialList, settings: Sections, from_features: bool
) -> None:
    """Check that training can provide the network's inputs besides waveforms.

    Raises:
        UsageError: the training list lacks a column; minibatches are cached features or mixed, so
            inputs would not belong to them; or the network does not mask padding.
    """
    if settings.lengths.minibatch_s is not None:
        name = settings.network.network_class
        masks = settings.lengths.masks
        samples = fixed_samples(network)
        if samples is not None:
            raise UsageError(
                f"{name} takes clips of {samples} samples only. Set lengths.minibatch_s = None."
            )
        if isinstance(network, SSLDetector):
            network.masks_padding = masks
            if masks and type(network.back_end).of_padded is BackEnd.of_padded:
                raise masks_no_padding(type(network.back_end))
        if masks and LENGTHS not in further_inputs(network):
            raise UsageError(
                f"lengths.masks = True: {name} does not take the lengths of its recordings. Set "
                "lengths.masks = False: padding is silence to the network then. A class of your "
                "own takes them by further_inputs = ('lengths',)."
            )
    names = inputs_in_training(network, settings)
    if not names:
        return
    taken = f"{settings.network.network_class} takes {', '.join(names)} (further_inputs)"
    if from_features:
        raise UsageError(f"{taken}: set front_end.cache_features = False.")
    if settings.augmentation.mixup_probability:
        raise UsageError(f"{taken}, which cannot be mixed: set augmentation.mixup_probability = 0.")
    for column in input_columns(network):
        if column not in utterances.columns:
            raise UsageError(
                f"{settings.network.network_class} takes the column {column!r} of the training "
                f"list (input_columns), which has {', '.join(utterances.columns) or 'no columns'}."
            )


def step_memory_errors_as_messages(
    settings: Sections, step: int, per_process: int, device: torch.device
) -> AbstractContextManager[None]:
    """Raise one message for a training step that does not fit into the device's memory.

    Args:
        step: Number of the step, counted from 1.
        per_process: Number of utterances that this process computes at once.

    Raises:
        AsdfError: the step does not fit; the message names the settings that make it smaller.
    """

    def describe(reason: str) -> AsdfError:
        network = settings.network
        whole = network.global_minibatch_size
        name = "minibatch_size" if whole is None else "global_minibatch_size"
        known = {
            "front_end.gradient_checkpointing=True": not settings.front_end.gradient_checkpointing,
            "lora.rank=8": not settings.lora.rank,
            "a shorter network.train_clip_size": True,
        }
        others = "; or ".join(other for other, helps in known.items() if helps)
        return AsdfError(
            f"{device} does not have enough memory for step {step} of training, with {per_process} "
            f"utterances of {network.train_clip_size:,} samples at once: {reason}. Lower "
            f"network.{name} (now {whole or network.minibatch_size}) and raise "
            f"network.optimizer_step_interval (now {network.optimizer_step_interval}) by the same "
            f"factor, which keeps the size of a step. Or set {others}. On a GPU, the same command "
            "with --dry-run tells how much memory a step takes; other programs may use it as well."
        )

    return memory_errors_as(describe)


def check_needs(terms: Sequence[Term], network: nn.Module, from_features: bool) -> None:
    """Let the network return the features that terms need, after checking that it can.

    Raises:
        UsageError: a term needs features of a network without one of ASDF's front ends, or
            waveforms although the minibatches are cached features.
    """
    for term in terms:
        if FEATURES in term.needs:
            if not isinstance(network, SSLDetector):
                raise UsageError(
                    f"the term {term.name!r} of the loss needs the features of a front end: derive "
                    f"{type(network).__name__} from asdf.networks.SSLDetector."
                )
            network.gives_features = True
        if CLIPS in term.needs and from_features:
            raise UsageError(
                f"the term {term.name!r} of the loss needs waveforms: set "
                "front_end.cache_features = False."
            )


def check_clip_size(network: nn.Module, training: Network) -> None:
    """Check that the network takes clips of `network.train_clip_size` samples.

    Raises:
        UsageError: it only takes recordings of another length.
    """
    clip = training.train_clip_size
    samples = fixed_samples(network)
    if samples is not None and samples != clip:
        raise UsageError(
            f"network.train_clip_size is {clip}, but {training.network_class} takes {samples} "
            f"samples only. Set it to {samples}, or build the network for {clip} samples."
        )


@dataclass(frozen=True)
class StepWeights:
    """The weights of an optimiser step's utterances, the same on all ranks.

    Attributes:
        normaliser: Denominator of the detection loss's mean; 1 if no utterance has a label.
        factors: Factor of each term's values in a sum that is divided by `normaliser`, by name.
        counts: Denominator of each term's own mean, by name.
    """

    normaliser: float
    factors: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Objective:
    """The detection loss and further terms.

    Attributes:
        loss: Loss of detection.
        detection_weight: Weight of the detection loss.
        has_unlabelled: Whether utterances may have no label, in which case their loss is 0.
        noted: Values of the terms in the last minibatch, (B,), without their factors, by name.
    """

    loss: Loss
    terms: Sequence[Term] = ()
    detection_weight: float = 1.0
    has_unlabelled: bool = False
    noted: dict[str, Tensor] = field(default_factory=dict, compare=False)

    def begin_training(self, labels: Tensor) -> None:
        """Prepare the loss for utterances with these labels, some of which may be missing."""
        known = labels[labels != UNLABELLED]
        if len(known):
            self.loss.begin_training(known)

    def begin_step(self, epochs: float) -> None:
        """Prepare the loss and the terms for a step. Args: as in `Loss.begin_step`."""
        self.loss.begin_step(epochs)
        for term in self.terms:
            term.begin_step(epochs)

    def with_clips(self, outputs: Outputs, clips: Tensor) -> Outputs:
        """Return the outputs with the waveforms if a term needs them."""
        is_needed = any(CLIPS in term.needs for term in self.terms)
        return outputs.with_extra(CLIPS, clips) if is_needed else outputs

    def of_minibatch(self, outputs: Outputs, targets: Targets) -> Tensor:
        """Return the values of the utterances, (B,)."""
        return self.with_terms(self.detection(outputs, targets), outputs, targets)

    def detection(self, outputs: Outputs, targets: Targets) -> Tensor:
        """Return the weighted values of the detection loss, (B,)."""
        known = targets
        if self.has_unlabelled:
            # Compute their loss as if they were spoofs, and discard it.
            known = replace(targets, labels_B=targets.labels_B.clamp(min=0))
        values_B = self.loss.of_minibatch(outputs, known)
        if self.has_unlabelled:
            values_B = torch.where(targets.labels_B == UNLABELLED, 0.0, values_B)
        # Do not multiply by 1, so that the operations without terms are unchanged.
        return values_B if self.detection_weight == 1 else self.detection_weight * values_B

    def with_terms(self, values_B: Tensor, outputs: Outputs, targets: Targets) -> Tensor:
        """Return values of the utterances with those of the terms added."""
        for term in self.terms:
            factor = targets.terms[term.name].factor
            seen = outputs
            if LENGTHS in term.needs and targets.lengths_B is not None:
                seen = outputs.with_extra(LENGTHS, targets.lengths_B)
            of_term_B = term.of_minibatch(seen, targets)
            self.noted[term.name] = of_term_B.detach()
            values_B = values_B + factor * of_term_B
        return values_B


class TargetSource:
    """The targets of a training list for the objective.

    Args:
        frames: Frames of the clips, which determine their labels: a clip without a spoofed frame is
            bona fide, even if its utterance is spoofed elsewhere. None if a clip has the label of
            its utterance.
        network: Network, for its further inputs; None if it takes only waveforms.

    Attributes:
        labels: Labels of the whole list, on the CPU.
    """

    def __init__(
        self,
        utterances: TrialList,
        objective: Objective,
        settings: Sections,
        device: torch.device,
        frames: ClipFrames | None = None,
        network: nn.Module | None = None,
    ) -> None:
        self.labels = torch.from_numpy(utterances.labels).long()
        self._utterances = utterances
        self._loss = objective.loss
        self._terms = objective.terms
        self._device = device
        self._frames = frames
        self._inputs = () if network is None else inputs_in_training(network, settings)
        self._input_columns = () if network is None else input_columns(network)
        self._mixup: Mixup | None = find_mixup(settings, len(utterances))

    def weights(self, keys: Sequence[ClipKey]) -> StepWeights:
        """Return the denominator of the mean over these clips, and the terms' factors.

        Args:
            keys: Keys of clips of all ranks, such as those of a window.
        """
        labels = self.labels_of(keys)
        counts = self._counts(keys)
        if self._mixup is None:
            # For utterances without labels the sum is 0, whatever it is divided by.
            normaliser = self._loss.normaliser(labels[labels != UNLABELLED]) or 1.0
        else:
            mixtures = self._mixup.draw_all(keys)
            partners = _partner_keys(keys, mixtures)
            weights = torch.from_numpy(mixtures.weights)
            normaliser = self._loss.mixed_normaliser(labels, self.labels_of(partners), weights)
            exact = weights.double()
            for number, others in enumerate(self._counts(partners)):
                counts[number] = exact * counts[number] + (1 - exact) * others
        factors = {}
        totals = {}
        for term, counted in zip(self._terms, counts, strict=True):
            total = totals[term.name] = float(counted.sum())
            # If nothing counts, all values are 0.
            factors[term.name] = term.weight * normaliser / total if total else 0.0
        return StepWeights(normaliser, factors, totals)

    def _counts(self, keys: Sequence[ClipKey]) -> list[Tensor]:
        """Return how much each clip counts in the mean of each term."""
        return [term.counts(term.targets_of(keys)) for term in self._terms]

    def of_share(
        self, share: Share, weights: StepWeights, read: Mapping[str, Any] | None = None
    ) -> Targets:
        """Return the targets of a minibatch, on the device, with the network's further inputs.

        Args:
            weights: Weights of the window that the minibatch is part of.
            read: Data read besides the clips, by name.
        """
        keys = share.clip_keys()
        targets = self._of(keys, weights)
        if self._inputs or read:
            known = read or {}
            inputs: dict[str, Any] = {name: known[name] for name in self._inputs if name in known}
            if COLUMNS in self._inputs:
                columns = self._columns_of(self._input_columns, share.utterances)
                inputs[COLUMNS] = {name: list(values) for name, values in columns.items()}
            targets = replace(targets, inputs=inputs, lengths_B=known.get(LENGTHS))
        if self._mixup is None:
            return targets
        mixtures = self._mixup.draw_all(keys)
        return replace(
            targets,
            partners=self._of(_partner_keys(keys, mixtures), weights),
            weights_B=send(torch.from_numpy(mixtures.weights), self._device),
        )

    def _columns_of(self, names: Sequence[str], indices: np.ndarray) -> dict[str, Sequence[str]]:
        columns = self._utterances.columns
        return {name: values_at(columns[name], indices) for name in names}

    def of_window(self, window: Window) -> Targets:
        """Return the targets of all ranks' utterances, without mixup and terms."""
        assert self._mixup is None  # a loss of a whole step allows no mixup
        return self._of_detection(window.clip_keys())

    def _of(self, keys: Sequence[ClipKey], weights: StepWeights) -> Targets:
        targets = self._of_detection(keys)
        terms = {}
        for term in self._terms:
            values = send(term.targets_of(keys), self._device)
            # A tensor, which a captured step reads anew; being 0-dimensional, it promotes no type.
            factor = torch.tensor(weights.factors[term.name], dtype=torch.float64)
            terms[term.name] = TermTargets(values, send(factor, self._device))
        return replace(targets, terms=terms) if terms else targets

    def labels_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return the labels of the clips with these keys, (clips,) int64, on the CPU."""
        if self._frames is not None:
            return torch.from_numpy(self._frames.of_clips(keys)).long()
        return self.labels[_indices_of(keys)]

    def _of_detection(self, keys: Sequence[ClipKey]) -> Targets:
        columns = self._columns_of(self._loss.columns, _indices_of(keys))
        return Targets(send(self.labels_of(keys), self._device), columns)


def _indices_of(keys: Sequence[ClipKey]) -> np.ndarray:
    return np.array([index for _, index in keys], np.int64)


def _partner_keys(keys: Sequence[ClipKey], mixtures: Mixtures) -> list[ClipKey]:
    """Return the keys of the clips that are mixed in, with the same draws."""
    draws = [draw for draw, _ in keys]
    return list(zip(draws, mixtures.partners.tolist(), strict=True))


class LossOnTrials:
    """A detection loss, computed for each trial.

    Attributes:
        depends_on: Plain values that its results depend on besides the network.
    """

    def __init__(self, loss: Loss, settings: Sections) -> None:
        """Store `loss`, on the device of the network that scores."""
        kind = type(loss)
        home = _HOME_OF_OURS if is_ours(f"{kind.__module__}.") else kind.__module__
        self.depends_on: Mapping[str, Any] = {
            "class": f"{home}.{kind.__qualname__}",
            "class weights": list(settings.network.class_weights),
            **asdict(settings.loss),
        }
        self._loss = loss
        self._failed: set[str] = set()

    def of_trials(self, computed: Computed, utterances: TrialList, trials: np.ndarray) -> Tensor:
        """Return the losses of a batch with class weights, (B,) float32.

        They are NaN if the loss fails, with one warning per list; a user's own may need a column
        that the list lacks.

        Args:
            trials: Indices into the list, (B,).
        """
        try:
            columns = {}
            for name in self._loss.columns:
                if name not in utterances.columns:
                    raise UsageError(f"its loss needs the column {name!r}, which the list lacks")
                columns[name] = values_at(utterances.columns[name], trials)
            labels_B = torch.from_numpy(utterances.labels[trials]).long()
            targets = Targets(send(labels_B, computed.logits_B2.device), columns)
            embeddings = computed.embeddings
            if isinstance(embeddings, Tensor) and embeddings.is_floating_point():
                # Outside autocast, losses must not mix types.
                embeddings = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
            outputs = Outputs(embeddings, computed.logits_B2)
            with numbers_unchanged(self._loss), torch.no_grad():
                self._loss.eval()
                values_B = self._loss.of_minibatch(outputs, targets)
            return values_B.float().reshape(len(trials))
        except Exception as error:
            if utterances.name not in self._failed:
                reason = str(error)
                if not isinstance(error, AsdfError):
                    reason = f"it fails: {describe_error(error, __file__)}"
                LOG.warning("warning: no loss is computed on %s: %s", utterances.name, reason)
            self._failed.add(utterances.name)
            return computed.logits_B2.new_full((len(trials),), torch.nan)

    def mean(self, losses: np.ndarray, labels: np.ndarray) -> float:
        """Return the mean over a list, weighted like that of a training step.

        Args:
            losses: Losses from `of_trials`, (N,) float32.
            labels: Labels (N,), 1 bona fide, 0 spoof.

        Returns:
            Mean; NaN if a trial has no loss, or no trial counts.
        """
        total = float(losses.astype(np.float64).sum())
        weight = self._loss.normaliser(torch.from_numpy(labels))
        return total / weight if weight else np.nan


def loss_on_trials(
    objective: Objective, network: nn.Module, settings: Sections
) -> LossOnTrials | None:
    """Return the trained detection loss of a network in training, for lists of trials.

    Args:
        network: Network as it is scored; its attached loss, which may be averaged, is used.

    Returns:
        Loss; None if trials have no separate loss, since it depends on other utterances of a step,
        or if training does not minimise it.
    """
    if objective.loss.is_joint or objective.detection_weight == 0:
        return None
    attached = loss_of(network)
    return LossOnTrials(attached if isinstance(attached, Loss) else objective.loss, settings)
