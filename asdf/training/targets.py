"""Training targets of the utterances of a step: labels, columns, and those of mixup.

Invariant: it follows from the training list and the keys of the clips, which all ranks know. So the
denominators of a step's means are the same on all of them, without an exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from asdf.data.clip_frames import ClipFrames
from asdf.data.mixup import Mixtures, Mixup, find_mixup
from asdf.data.training_plan import Share, Window
from asdf.distributed.transfer import send
from asdf.settings.sections import Sections
from asdf.training.losses import Targets, TermTargets
from asdf.training.objective import Objective, StepWeights
from asdf.training.terms import ClipKey, Term
from asdf.trials.trial_list import TrialList, values_at


class TargetSource:
    """The targets of a training list for what training minimises.

    Args:
        frames: Frames of the clips, whose labels follow from them: a clip without a spoofed frame
            is bona fide, also one of an utterance that is spoofed elsewhere. None: a clip has the
            label of its utterance.

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
    ) -> None:
        self.labels = torch.from_numpy(utterances.labels).long()
        self._utterances = utterances
        self._loss = objective.loss
        self._terms = objective.terms
        self._device = device
        self._frames = frames
        self._mixup: Mixup | None = find_mixup(settings, len(utterances))

    def weights(self, window: Window) -> StepWeights:
        """Return the denominator of the mean over a window of all ranks, and the terms' factors."""
        normaliser = self._normaliser(window)
        factors = {}
        for term in self._terms:
            count = self._count(term, window)
            # Where nothing counts all values are 0.
            factors[term.name] = term.weight * normaliser / count if count else 0.0
        return StepWeights(normaliser, factors)

    def of_share(self, share: Share, weights: StepWeights) -> Targets:
        """Return the targets of a minibatch, on the device.

        Args:
            weights: Weights of the window that the minibatch is a part of.
        """
        keys = share.clip_keys()
        targets = self._of(keys, weights)
        if self._mixup is None:
            return targets
        mixtures = self._mixup.draw_all(keys)
        return replace(
            targets,
            partners=self._of(_partner_keys(keys, mixtures), weights),
            weights_B=send(torch.from_numpy(mixtures.weights), self._device),
        )

    def of_window(self, window: Window) -> Targets:
        """Return the targets of the utterances of all ranks, which are not mixed, without terms."""
        assert self._mixup is None  # a loss of a whole step allows no mixup
        return self._of_detection(window.clip_keys())

    def _of(self, keys: Sequence[ClipKey], weights: StepWeights) -> Targets:
        targets = self._of_detection(keys)
        terms = {}
        for term in self._terms:
            values = send(term.targets_of(keys), self._device)
            # A tensor, which a captured step reads anew; of no dimension, it promotes no type.
            factor = torch.tensor(weights.factors[term.name], dtype=torch.float64)
            terms[term.name] = TermTargets(values, send(factor, self._device))
        return replace(targets, terms=terms) if terms else targets

    def labels_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return the labels of the clips of these keys, (clips,) int64, on the CPU."""
        if self._frames is not None:
            return torch.from_numpy(self._frames.of_clips(keys)).long()
        return self.labels[_indices_of(keys)]

    def _of_detection(self, keys: Sequence[ClipKey]) -> Targets:
        indices = _indices_of(keys)
        columns: dict[str, Sequence[str]] = {}
        for name in self._loss.columns:
            columns[name] = values_at(self._utterances.columns[name], indices)
        return Targets(send(self.labels_of(keys), self._device), columns)

    def _normaliser(self, window: Window) -> float:
        keys = window.clip_keys()
        labels = self.labels_of(keys)
        if self._mixup is None:
            return self._loss.normaliser(labels)
        mixtures = self._mixup.draw_all(keys)
        partners = self.labels_of(_partner_keys(keys, mixtures))
        return self._loss.mixed_normaliser(labels, partners, torch.from_numpy(mixtures.weights))

    def _count(self, term: Term, window: Window) -> float:
        """Return the denominator of a term's mean over a window of all ranks."""
        keys = window.clip_keys()
        counts = term.counts(term.targets_of(keys))
        if self._mixup is None:
            return float(counts.sum())
        mixtures = self._mixup.draw_all(keys)
        others = term.counts(term.targets_of(_partner_keys(keys, mixtures)))
        weights = torch.from_numpy(mixtures.weights).double()
        return float((weights * counts + (1 - weights) * others).sum())


def _indices_of(keys: Sequence[ClipKey]) -> np.ndarray:
    return np.array([index for _, index in keys], np.int64)


def _partner_keys(keys: Sequence[ClipKey], mixtures: Mixtures) -> list[ClipKey]:
    """Return the keys of the clips that others are mixed with: of the same draws."""
    draws = [draw for draw, _ in keys]
    return list(zip(draws, mixtures.partners.tolist(), strict=True))
