"""Masks of frequency bands and of stretches of time in a clip.

Invariant: everything outside the bands or stretches is unchanged.

This follows SpecAugment, which masks a spectrogram; here the waveform itself is masked, for every
front end. Daniel S. Park, William Chan, Yu Zhang, Chung-Cheng Chiu, Barret Zoph, Ekin D. Cubuk,
Quoc V. Le: SpecAugment: a simple data augmentation method for automatic speech recognition.
Interspeech 2019.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.filtering import band_stop, filter_clip
from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.draws import draw_between

# Duration of the fades to silence and back.
_FADE_S = 0.002


class Band(NamedTuple):
    """A band of frequencies."""

    lowest_hz: float
    highest_hz: float


class Stretch(NamedTuple):
    """A stretch of a clip, in samples."""

    start: int
    length: int


class FrequencyMask(Part):
    """Removes frequency bands of drawn widths."""

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.frequency_mask_probability
        self.count = section.frequency_mask_count
        self.max_hz = section.frequency_mask_max_hz
        self.rate = settings.audio.sample_rate

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Stop the drawn bands of `clip` (T,) float32: (T,) float32."""
        filters = []
        for _ in range(self.count):
            filters.append(band_stop(*self.draw(rng), self.rate))
        return filter_clip(clip, filters)

    def draw(self, rng: Generator) -> Band:
        """Draw a band: its width, then its position."""
        width = draw_between(0.0, min(self.max_hz, self.rate / 2), rng)
        lowest = draw_between(0.0, self.rate / 2 - width, rng)
        return Band(lowest, lowest + width)

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"frequency_mask ({self.count} up to {self.max_hz:g} Hz)"


class TimeMask(Part):
    """Silences stretches of drawn lengths."""

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.time_mask_probability
        self.count = section.time_mask_count
        self.max_s = section.time_mask_max_s
        self.rate = settings.audio.sample_rate

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Silence the drawn stretches of `clip` (T,) float32: (T,) float32."""
        masked: np.ndarray = clip.copy()
        for _ in range(self.count):
            start, length = self.draw(len(clip), rng)
            # A step to silence would click, so gains fall to 0 and rise again at the end.
            fade = min(round(_FADE_S * self.rate), length // 2)
            steps = np.arange(1, fade + 1) / (fade + 1)
            falling = 0.5 + 0.5 * np.cos(np.pi * steps)
            gains = np.zeros(length, np.float32)
            gains[:fade] = falling
            gains[length - fade :] = falling[::-1]
            masked[start : start + length] *= gains
        return masked

    def draw(self, samples: int, rng: Generator) -> Stretch:
        """Draw a stretch of a clip of `samples`: its length, then its position."""
        longest = min(samples, round(self.max_s * self.rate))
        length = int(rng.integers(longest, endpoint=True))
        start = int(rng.integers(samples - length, endpoint=True))
        return Stretch(start, length)

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"time_mask ({self.count} up to {self.max_s:g} s)"
