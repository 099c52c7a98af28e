"""Parts of the chain that remove frequencies or stretches of time, and the filters they use.

Invariant: a filter's coefficients are symmetric and centred, so the speech is not shifted. They are
those of an ideal low-pass under a Kaiser window: from `TRANSITION_HZ` / 2 above the cut-off, less
than 1/5,000 (-74 dB) passes; the same distance below it, everything passes.

The masks follow SpecAugment, which masks a spectrogram; here the waveform itself is masked, for
every front end. Daniel S. Park, William Chan, Yu Zhang, Chung-Cheng Chiu, Barret Zoph, Ekin D.
Cubuk, Quoc V. Le: SpecAugment: a simple data augmentation method for automatic speech recognition.
Interspeech 2019.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.draws import draw_between
from asdf.facts import SAMPLE_RATE

TRANSITION_HZ = 80.0

# J. F. Kaiser (1974): 81 dB of attenuation for beta = 8, with a transition of
# (81 - 8) / (2.285 * 2 * 512) radians per sample, 80 Hz.
_HALF_WIDTH = 512
_WINDOW = np.kaiser(2 * _HALF_WIDTH + 1, 8.0)


def low_pass(cutoff_hz: float, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return the coefficients (1025,) of a low-pass that halves the amplitude at `cutoff_hz`.

    Args:
        rate: Sampling rate of the filtered signal, in Hz. The transition is 80 Hz at 16 kHz, and
            proportional at other rates.
    """
    n = np.arange(-_HALF_WIDTH, _HALF_WIDTH + 1)
    proportion = cutoff_hz / (rate / 2)
    ideal = proportion * np.sinc(proportion * n)
    coefficients: np.ndarray = ideal * _WINDOW
    return coefficients


def band_stop(lowest_hz: float, highest_hz: float, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return the coefficients (1025,) of a filter that stops the frequencies of a band."""
    coefficients: np.ndarray = low_pass(lowest_hz, rate) - low_pass(highest_hz, rate)
    coefficients[_HALF_WIDTH] += 1
    return coefficients


def filter_clip(clip: np.ndarray, filters: list[np.ndarray]) -> np.ndarray:
    """Filter `clip` (T,) float32 by all `filters` (1025,) in turn: (T,) float32."""
    # Each filter extends this far beyond the clip's end, where the signal is zero.
    points = find_fast_size(len(clip) + _HALF_WIDTH * len(filters))
    spectrum = rfft(clip, points)
    for coefficients in filters:
        # Coefficients before the centre go to the end, where time is negative.
        centred = np.zeros(points, np.float32)
        centred[: _HALF_WIDTH + 1] = coefficients[_HALF_WIDTH:]
        centred[-_HALF_WIDTH:] = coefficients[:_HALF_WIDTH]
        spectrum = spectrum * rfft(centred).real
    filtered = irfft(spectrum, points)
    return filtered[: len(clip)].astype(np.float32)


def find_fast_size(min_points: int) -> int:
    """Return the smallest 2^a, 3 * 2^a or 5 * 2^a that is not below `min_points`."""
    sizes = []
    for factor in (1, 3, 5):
        multiple = -(-min_points // factor)
        sizes.append(factor << max(0, (multiple - 1).bit_length()))
    return min(sizes)


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
        filters = [band_stop(*self.draw(rng), self.rate) for _ in range(self.count)]
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
