"""The scores of the frames of a recording.

Invariant: every sample of a recording is in exactly one frame; the last frame may be shorter.

Shapes: F frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from asdf.facts import SAMPLE_RATE
from asdf.networks.attached import Extra
from asdf.networks.interface import Outputs
from asdf.segments import Segment, segments_from_scores


@dataclass(frozen=True, eq=False)
class FrameScores:
    """The scores of a recording's frames.

    Attributes:
        scores: Scores of the frames, (F,) float32: the network's natural-log odds that the whole
            frame is bona fide, given the class weights of its training; higher for bona fide.
        hop_s: Length of a frame in seconds; frame f begins at f * hop_s.
        seconds: Length of the recording in seconds, where the last frame ends.
    """

    scores: np.ndarray
    hop_s: float
    seconds: float

    def __len__(self) -> int:
        return len(self.scores)

    def segments(self, threshold: float = 0.0, min_s: float = 0.0) -> tuple[Segment, ...]:
        """Return the parts of at least `min_s` seconds whose frames score below `threshold`.

        Raises:
            AsdfError: a score is NaN.
        """
        return segments_from_scores(
            self.scores, self.hop_s, threshold, duration_s=self.seconds, min_s=min_s
        )


class Frames(Extra):
    """Scores of frames: the bona fide minus the spoof logit of a frame-level head."""

    key = "frames"
    on_request = True

    def __init__(self, hop: int) -> None:
        self.hop: int = hop

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the scores."""
        logits_BF2 = outputs.extras[self.key].float()
        return logits_BF2[:, :, 1] - logits_BF2[:, :, 0]

    def describe(self, row: np.ndarray, samples: int) -> FrameScores:
        """Return the scores with their times."""
        # The settings refuse a network with frames at any other rate.
        return FrameScores(row, self.hop / SAMPLE_RATE, samples / SAMPLE_RATE)
