"""The training loss on the trials of a list, from the outputs that their scores use.

Invariant: it changes neither scores nor training: the loss is computed without gradients, in
`eval()` mode, and each batch starts from the buffers of training's last step and leaves them
unchanged. A trial's loss depends neither on earlier batches nor on the number of processes.

Shapes: B trials of a batch, N trials of a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asdf.distributed.gpus import send
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
    """A detection loss, computed for each trial.

    Attributes:
        depends_on: Plain values that its results depend on besides the network.
    """

    def __init__(self, loss: Loss, settings: TrainingSections) -> None:
        """Store `loss`, on the device of the network that scores."""
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

        They are NaN if the loss fails, with one warning per list; a user's own may need a column
        that the list lacks.

        Args:
            trials: Indices into the list, (B,).
        """
        try:
            return self._compute(computed, utterances, trials)
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
            # Outside autocast, losses must not mix types.
            embeddings = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        outputs = Outputs(embeddings, computed.logits_B2)
        with numbers_unchanged(self._loss), torch.no_grad():
            self._loss.eval()
            values_B = self._loss.of_minibatch(outputs, targets)
        return values_B.float().reshape(len(trials))


def loss_on_trials(
    objective: Objective, network: nn.Module, settings: TrainingSections
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
