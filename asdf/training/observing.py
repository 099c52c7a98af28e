"""Outputs and gradient norms of every optimiser step, for callbacks that request them.

Invariant: if no callback needs them, nothing is registered, computed or waited for. All ranks know
the callbacks' needs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from asdf.data.training_plan import TrainingPlan, Window
from asdf.errors import UsageError
from asdf.training.callback_group import CallbackGroup
from asdf.training.callbacks import SETTING, StepOutputs, StepRecord
from asdf.training.step import Step, TakenStep
from asdf.training.training_progress import Progress, position_of


class StepObserver:
    """Calls `on_every_step` of the callbacks that have it.

    Raises:
        UsageError: a callback needs the network's outputs, which a CUDA graph does not provide.
    """

    def __init__(self, step: Step, plan: TrainingPlan, callbacks: CallbackGroup) -> None:
        self._step = step
        self._plan = plan
        self._callbacks = callbacks
        self._outputs: list[tuple[Tensor, Tensor]] | None = None
        needs = callbacks.needs
        step.measures_gradient = needs.gradient_norm
        if needs.outputs:
            if step.settings.computing.cuda_graphs is True:
                raise UsageError(
                    f"{SETTING}: a callback wants the network's outputs (needs_outputs), which "
                    "computing.cuda_graphs = True does not give. Switch one of them off."
                )
            self._outputs = []
            step.trained.register_forward_hook(self._take_outputs)

    def after_step(self, taken: TakenStep, window: Window, progress: Progress) -> None:
        """Call the callbacks; all ranks call this together."""
        if not self._callbacks.needs.every_step:
            return
        position = position_of(progress, self._plan)

        def call() -> None:
            norm = None if taken.gradient_norm is None else float(taken.gradient_norm)
            record = StepRecord(
                step=position["step"],
                epoch=position["epoch"],
                loss=taken.loss,
                learning_rate=taken.learning_rate,
                gradient_norm=norm,
                outputs=self._collect(window),
            )
            self._callbacks.call_alone("on_every_step", record)

        self._step.world.run_on_main(call)
        if self._outputs is not None:
            self._outputs.clear()

    def _take_outputs(self, module: nn.Module, arguments: Any, outputs: Any) -> None:
        assert self._outputs is not None
        # A validation between steps does not belong to a step.
        if module.training:
            embeddings, logits = outputs
            self._outputs.append((embeddings.detach(), logits.detach()))

    def _collect(self, window: Window) -> StepOutputs | None:
        """Return the outputs for the utterances of this rank, without the fillers."""
        if self._outputs is None:
            return None
        # A loss with two passes leaves the outputs of the first before those of the second.
        passes = self._outputs[-len(window.shares) :]
        indices = []
        keys = []
        embeddings = []
        logits = []
        for share, (share_embeddings, share_logits) in zip(window.shares, passes, strict=True):
            indices += share.utterances[: share.counted].tolist()
            keys += share.clip_keys()[: share.counted]
            embeddings.append(share_embeddings[: share.counted])
            logits.append(share_logits[: share.counted])
        return StepOutputs(
            utterances=[self._step.utterances.ids[index] for index in indices],
            labels_B=self._step.targets.labels_of(keys),
            embeddings_BE=torch.cat(embeddings),
            logits_B2=torch.cat(logits),
        )
