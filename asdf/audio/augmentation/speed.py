"""Speech played faster or slower: tempo and pitch change together, as on a tape.

Invariant: a speed of p percent is a resampling from p to 100, in whole numbers, so how much of a recording an example
of any length takes is known before anything is read.

Tom Ko, Vijayaditya Peddinti, Daniel Povey, Sanjeev Khudanpur: Audio augmentation for speech recognition.
Interspeech 2015.
"""

from __future__ import annotations

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE, resample
from asdf.settings.sections import Augmentation

AS_IT_IS = 100


def draw_speed(settings: Augmentation, rng: np.random.Generator) -> int:
    """A speed between `speed_min` and `speed_max`, in percent; 100 for the examples that stay as they are."""
    if rng.random() >= settings.speed_probability:
        return AS_IT_IS
    return round(
        100 * (settings.speed_min + (settings.speed_max - settings.speed_min) * rng.random())
    )


def source_samples(samples: int, percent: int) -> int:
    """The fewest samples that make `samples` or more at this speed."""
    return (samples - 1) * percent // AS_IT_IS + 1


def at_speed(waveform: np.ndarray, percent: int) -> np.ndarray:
    """`waveform` (T,) float32 at `percent` of its speed: (ceil(100 T / percent),) float32."""
    return resample(waveform, SAMPLE_RATE * percent // AS_IT_IS)
