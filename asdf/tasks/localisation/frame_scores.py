"""The scores of the frames of a recording.

Invariant: every sample of a recording is in exactly one frame; the last frame may be shorter.

Shapes: F frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.facts import SAMPLE_RATE
from asdf.networks.extras import Extra
from asdf.scoring.columns import ScoreColumn
from asdf.segments import Segment, segments_from_scores
from asdf.text import and_more

if TYPE_CHECKING:
    from torch import Tensor

    from asdf.networks.interface import Outputs

_PARTS_SHOWN = 8


@dataclass(frozen=True, eq=False)
class FrameScores:
    """The scores of a recording's frames.

    Attributes:
        scores: Scores of the frames, (F,) float32: the network's natural-log odds that the whole
            frame is bona fide, given the class weights of its training; higher for bona fide.
        hop_s: Length of a frame in seconds; frame f begins at f * hop_s.
        seconds: Length of the recording in seconds, where the last frame ends.
        threshold: Score below which frames are marked; None: none are.
    """

    scores: np.ndarray
    hop_s: float
    seconds: float
    threshold: float | None = None

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

    @property
    def marked(self) -> tuple[Segment, ...]:
        """The parts whose frames are marked."""
        return () if self.threshold is None else self.segments(self.threshold)


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


class FrameColumn(ScoreColumn):
    """Scores of frames, and the parts that they mark below a threshold."""

    key = "frames"
    place = (70, 95)

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold

    def with_options(self, options: Any) -> FrameColumn:
        return FrameColumn(options.segment_threshold if options.segments else None)

    @classmethod
    def entry(cls, value: FrameScores) -> dict[str, Any]:
        if value.threshold is None:
            return {}
        return {"spoofed": [list(segment) for segment in value.marked]}

    @classmethod
    def words(cls, value: FrameScores) -> str:
        if not value.marked:
            return "" if value.threshold is None else "no part marked"
        # In seconds, as in the files, because parts are short.
        spans = [f"{start_s:.2f}-{end_s:.2f}" for start_s, end_s in value.marked]
        return f"spoofed from to (s): {and_more(spans, _PARTS_SHOWN)}"

    def saved(self, value: FrameScores) -> dict[str, Any]:
        return {**asdict(value), "scores": value.scores.tolist()}

    def restored(self, saved: Mapping[str, Any]) -> FrameScores:
        scores = np.array(saved["scores"], np.float32)
        return FrameScores(scores, saved["hop_s"], saved["seconds"], self.threshold)
