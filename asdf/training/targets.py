"""What the network is to learn of the utterances of a step: labels, columns, and those of mixup.

Invariant: it follows from the training list and the keys of the clips, which all ranks know. So the
denominator of a step's mean is the same on all of them, without an exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from asdf.data.mixup import Mixup, find_mixup
from asdf.data.training_plan import Share, Window
from asdf.distributed.transfer import send
from asdf.settings.sections import Sections
from asdf.training.losses import Loss, Targets
from asdf.trials.trial_list import TrialList, values_at


class TargetSource:
    """The targets of a training list for a loss.

    Attributes:
        labels: of the whole list, on the CPU.
    """

    def __init__(
        self, utterances: TrialList, loss: Loss, settings: Sections, device: torch.device
    ) -> None:
        self.labels = torch.from_numpy(utterances.labels).long()
        self._utterances = utterances
        self._loss = loss
        self._device = device
        self._mixup: Mixup | None = find_mixup(settings, len(utterances))

    def normaliser(self, window: Window) -> float:
        """Return the denominator of the mean over a window of all ranks."""
        labels = self.labels[window.utterances]
        if self._mixup is None:
            return self._loss.normaliser(labels)
        mixtures = self._mixup.draw_all(window.clip_keys())
        partners = self.labels[mixtures.partners]
        return self._loss.mixed_normaliser(labels, partners, torch.from_numpy(mixtures.weights))

    def of_share(self, share: Share) -> Targets:
        """Return the targets of a minibatch, on the device."""
        targets = self._of(share.utterances)
        if self._mixup is None:
            return targets
        mixtures = self._mixup.draw_all(share.clip_keys())
        return replace(
            targets,
            partners=self._of(mixtures.partners),
            weights_B=send(torch.from_numpy(mixtures.weights), self._device),
        )

    def of_window(self, window: Window) -> Targets:
        """Return the targets of the utterances of all ranks, which are not mixed."""
        assert self._mixup is None  # a loss of a whole step allows no mixup
        return self._of(window.utterances)

    def _of(self, indices: np.ndarray) -> Targets:
        columns: dict[str, Sequence[str]] = {}
        for name in self._loss.columns:
            columns[name] = values_at(self._utterances.columns[name], indices)
        return Targets(send(self.labels[indices], self._device), columns)
