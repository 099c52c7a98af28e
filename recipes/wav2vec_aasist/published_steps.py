"""Training steps of published recipes that ASDF does not include.

Invariant: random draws depend only on the seed, the epoch and the utterance, so that a resumed run
continues exactly, on any number of processes.

Shapes: B utterances, T samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asdf.audio.rawboost import boost, draw
from asdf.settings import OwnSettings, setting
from asdf.training.steps import Direction, Minibatch, StepWindow, TrainingStep


@dataclass
class DualPathSettings(OwnSettings, section_name="dual_path"):
    """Clips as they are, and the same clips with RawBoost, in every step."""

    aligned: bool = setting(
        True, "True: parts of both gradients that point against each other are taken out (PCGrad)"
    )


class DualPath(TrainingStep):
    """The mean of two gradients: of clips as they are, and with `rawboost.*`, drawn anew.

    Source: Truong et al., "Addressing Gradient Misalignment in Data-Augmented Training for Robust
    Speech Deepfake Detection", 2025; Yu et al., "Gradient Surgery for Multi-Task Learning", NeurIPS
    2020, for two tasks.
    """

    own_settings = DualPathSettings
    needs_waveforms = True

    def compute_gradient(self, window: StepWindow) -> None:
        """Set the gradient of the step to the mean of both gradients."""
        clean = window.gradient()
        boosted_clips = [self.boosted(window, minibatch) for minibatch in window.minibatches]
        boosted = window.gradient(clips=boosted_clips, draw=1)
        if self.settings.section_of(DualPathSettings).aligned:
            clean, boosted = without_conflict(clean, boosted)
        window.set_gradient(0.5 * (clean + boosted))

    def boosted(self, window: StepWindow, minibatch: Minibatch) -> Tensor:
        """Return the clips of a minibatch with RawBoost, (B, T)."""
        clips = []
        draws = window.clip_generators(minibatch, "rawboost")
        for clip_T, rng in zip(minibatch.clips.cpu().numpy(), draws, strict=True):
            noises = draw(len(clip_T), self.settings.rawboost, rng)
            clips.append(boost(clip_T, noises, self.settings.rawboost))
        return torch.from_numpy(np.stack(clips)).to(minibatch.clips)


def without_conflict(first: Direction, second: Direction) -> tuple[Direction, Direction]:
    """Return both without their components along the other, if their product is negative."""
    product = first.dot(second)
    if product >= 0:
        return first, second
    apart = first - second * (product / second.dot(second))
    return apart, second - first * (product / first.dot(first))
