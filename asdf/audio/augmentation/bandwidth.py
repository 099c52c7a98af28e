"""Speech with the bandwidth of a lower sampling rate.

Invariant: above the drawn limit less than 1/5,000 remains, as after resampling to twice that rate
and back, and the speech is not shifted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.filtering import TRANSITION_HZ, filter_clip, low_pass
from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.draws import draw_between
from asdf.facts import SAMPLE_RATE


class Bandwidth(Part):
    """A choice of bandwidth limits, one of which is drawn for each clip."""

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.bandwidth_probability
        self.min_hz = section.bandwidth_min_hz
        self.max_hz = section.bandwidth_max_hz
        self.rate = settings.audio.sample_rate

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Remove frequencies above the drawn limit from `clip` (T,) float32: (T,) float32."""
        return limit_bandwidth(clip, draw_between(self.min_hz, self.max_hz, rng), self.rate)

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"bandwidth ({self.min_hz:g} to {self.max_hz:g} Hz)"


def limit_bandwidth(clip: np.ndarray, limit_hz: float, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Remove from `clip` (T,) float32 at `rate` Hz the frequencies above `limit_hz`: (T,)."""
    if limit_hz > rate / 2:
        return clip
    transition_hz = TRANSITION_HZ * rate / SAMPLE_RATE
    # The filter halves the amplitude at its cut-off and is complete half a transition later.
    return filter_clip(clip, [low_pass(limit_hz - transition_hz / 2, rate)])
