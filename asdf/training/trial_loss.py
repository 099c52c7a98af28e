"""The loss of training on the trials of a list, from the outputs that the scores are from.

Invariant: neither scores nor training change by it: the loss computes without gradients, in
`eval()` mode, and each batch finds and leaves its buffers as the last step of training did. So a
trial's loss does not depend on the batches before it, nor on the number of processes.

Shapes: B trials of a batch, N trials of a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asdf.distributed.transfer import send
from asdf.errors import AsdfError, UsageError
from asdf.networks.interface import Outputs
from asdf.networks.output_check import numbers_unchanged
from asdf.networks.trained_loss import loss_of
from asdf.runs.log import LOG
from asdf.scoring.scorer import Computed
from asdf.settings.class_path import describe_error
from asdf.training.losses import Loss, Targets
from asdf.training.objective import Objective
from asdf.training.training_sections import TrainingSections
from asdf.trials.trial_list import TrialList, values_at


class LossOnTrials:
    """A loss of detection, computed of each trial.

    Attributes:
        depends_on: whatever its values depend on besides the network, as plain values.
    """

    def __init__(self, loss: Loss, settings: TrainingSections) -> None:
        """Compute `loss`, on the device of the network that scores."""
        kind = type(loss)
        self.depends_on: Mapping[str, Any] = {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "class weights": list(settings.network.class_weights),
            **asdict(settings.loss),
        }
        self._loss = loss
        self._failed: set[str] = set()

    def of_trials(self, computed: Computed, utterances: TrialList, trials: np.ndarray) -> Tensor:
        """Return the losses of a batch with class weights, (B,) float32.

        They are not numbers where the loss fails, which a warning says once per list: one of a
        user's own may need a column that the list lacks.

        Args:
            trials: (B,) indices into the list.
        """
        try:
            return self._compute(computed, utterances, trials)
        except Exception as error:
            if utterances.name not in self._failed:
                reason = str(error)
                if not isinstance(error, AsdfError):
                    reason = f"it fails: {describe_error(error, __file__)}"
                LOG.warning("warning: no loss on %s is known: %s", utterances.name, reason)
            self._failed.add(utterances.name)
            return computed.logits_B2.new_full((len(trials),), torch.nan)

    def mean(self, losses: np.ndarray, labels: np.ndarray) -> float:
        """Return the mean over a list, weighted as that of a training step.

        Args:
            losses: (N,) float32, of `of_trials`.
            labels: (N,), 1 bona fide, 0 spoof.

        Returns:
            NaN where a trial has none, or none counts.
        """
        total = float(losses.astype(np.float64).sum())
        weight = self._loss.normaliser(torch.from_numpy(labels))
        return total / weight if weight else np.nan

    def _compute(self, computed: Computed, utterances: TrialList, trials: np.ndarray) -> Tensor:
        columns = {}
        for name in self._loss.columns:
            if name not in utterances.columns:
                raise UsageError(f"its loss needs the column {name!r}, which the list lacks")
            columns[name] = values_at(utterances.columns[name], trials)
        labels_B = torch.from_numpy(utterances.labels[trials]).long()
        targets = Targets(send(labels_B, computed.logits_B2.device), columns)
        embeddings = computed.embeddings
        if isinstance(embeddings, Tensor) and embeddings.is_floating_point():
            # Outside of autocast, losses do not mix types.
            embeddings = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        outputs = Outputs(embeddings, computed.logits_B2)
        with numbers_unchanged(self._loss), torch.no_grad():
            self._loss.eval()
            values_B = self._loss.of_minibatch(outputs, targets)
        return values_B.float().reshape(len(trials))


def loss_on_trials(
    objective: Objective,
    network: nn.Module,
    settings: TrainingSections,
) -> LossOnTrials | None:
    """Return the loss of detection, as a network in training has learnt it, for lists of trials.

    Args:
        network: Network as it is scored: the loss that is a part of it counts, which may be
            averaged.

    Returns:
        None where trials have no loss of their own, as it depends on the other utterances of a
        step, or where training does not minimise it.
    """
    if objective.loss.is_joint or objective.detection_weight == 0:
        return None
    attached = loss_of(network)
    return LossOnTrials(attached if isinstance(attached, Loss) else objective.loss, settings)
