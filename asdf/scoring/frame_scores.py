"""The scores of a recording's frames, and which frames a recording has.

Invariant: every sample of a recording is in one frame; the last one may be shorter.

Shapes: F frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.facts import SAMPLE_RATE
from asdf.segments import Segment, frame_count, segments_from_scores


@dataclass(frozen=True, eq=False)
class FrameScores:
    """The scores of a recording's frames.

    Attributes:
        scores: (F,) float32, the network's natural-log odds that all of a frame is bona fide, with
            the class weights of its training; the higher, the more bona fide.
        hop_s: seconds per frame; frame f begins at f * hop_s.
        seconds: Seconds of the recording, where the last frame ends.
    """

    scores: np.ndarray
    hop_s: float
    seconds: float

    @classmethod
    def of_samples(cls, scores: np.ndarray, samples: int, hop: int) -> FrameScores:
        """Return the scores of the frames of `samples` samples, `hop` samples each."""
        return cls(fit_frames(scores, samples, hop), hop / SAMPLE_RATE, samples / SAMPLE_RATE)

    def __len__(self) -> int:
        return len(self.scores)

    def segments(self, threshold: float = 0.0, min_s: float = 0.0) -> tuple[Segment, ...]:
        """Return the parts whose frames are below `threshold`; shorter ones than `min_s` are not.

        Raises:
            AsdfError: a score is NaN.
        """
        return segments_from_scores(
            self.scores, self.hop_s, threshold, duration_s=self.seconds, min_s=min_s
        )


def fit_frames(scores: np.ndarray, samples: int, hop: int) -> np.ndarray:
    """Return scores (frames,) for the frames of `samples` samples.

    The frames of a repetition are left out; the last score is repeated for the end of a recording
    that gives no frame of its own.
    """
    count = frame_count(samples, hop)
    missing = count - len(scores)
    if missing <= 0:
        return scores[:count]
    return np.concatenate([scores, np.repeat(scores[-1:], missing)])
