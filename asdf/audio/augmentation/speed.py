"""Speech played faster or slower: tempo and pitch change together, as on a tape.

Invariant: a speed of p percent is a resampling from p to 100, in integers, so the part of a
recording needed for an example of any length is known before anything is read.

Tom Ko, Vijayaditya Peddinti, Daniel Povey, Sanjeev Khudanpur: Audio augmentation for speech
recognition. Interspeech 2015.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.draws import draw_between
from asdf.audio.sample_rates import resample
from asdf.audio.speech import repeat_to
from asdf.facts import SAMPLE_RATE

UNCHANGED = 100


class Speed(Part):
    """Speeds between `lowest` and `highest`, 1 being unchanged, for a proportion of the examples.

    The chain draws the speed before the clip is cut, and reads the required samples.
    """

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.speed_probability
        self.lowest = section.speed_min
        self.highest = section.speed_max

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Play `clip` (T,) float32 at a drawn speed, cut or repeated: (T,) float32."""
        played = at_speed(clip, self._draw_percent(rng))
        return repeat_to(played, len(clip))[: len(clip)]

    def draw(self, rng: Generator) -> int:
        """Draw a speed in percent; 100 for unchanged examples."""
        if rng.random() >= self.probability:
            return UNCHANGED
        return self._draw_percent(rng)

    def _draw_percent(self, rng: Generator) -> int:
        return round(100 * draw_between(self.lowest, self.highest, rng))

    def describe(self) -> str:
        """Describe the part for the log."""
        return "speed"


def source_samples(samples: int, percent: int) -> int:
    """Return the minimum number of samples that give at least `samples` at this speed."""
    return (samples - 1) * percent // UNCHANGED + 1


def at_speed(waveform: np.ndarray, percent: int) -> np.ndarray:
    """Play `waveform` (T,) float32 at `percent` of its speed: (ceil(100 T / percent),) float32."""
    # As if it had been recorded at this percentage of our rate.
    rate = SAMPLE_RATE * percent // UNCHANGED
    return resample(waveform, rate)
