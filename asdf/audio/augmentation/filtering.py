"""Parts of the chain that remove frequencies or stretches of time, and the filters they use.

Invariant: a filter's coefficients are symmetric and centred, so the speech is not shifted. They are
those of an ideal low-pass under a Kaiser window: from `TRANSITION_HZ` / 2 above the cut-off, less
than 1/5,000 (-74 dB) passes; the same distance below it, everything passes.

The masks follow SpecAugment, which masks a spectrogram; here the waveform itself is masked, for
every front end. Daniel S. Park, William Chan, Yu Zhang, Chung-Cheng Chiu, Barret Zoph, Ekin D.
Cubuk, Quoc V. Le: SpecAugment: a simple data augmentation method for automatic speech recognition.
Interspeech 2019.

Speech played faster or slower, and silences at its ends shortened to drawn lengths.

Invariant: a speed of p percent is a resampling from p to 100, in integers, so the part of a
recording needed for an example of any length is known before anything is read. Of a trimmed clip,
no sample between the first and the last frame of speech is lost, and none is added.

Tom Ko, Vijayaditya Peddinti, Daniel Povey, Sanjeev Khudanpur: Audio augmentation for speech
recognition. Interspeech 2015.

In several corpora, the silence around spoofed speech is shorter than that around bona fide speech,
and a network may learn this instead. Nicolas M. Müller, Franziska Dieckmann, Pavel Czempin, Roman
Canals, Konstantin Böttinger, Jennifer Williams: Speech is silver, silence is golden: what do
ASVspoof-trained models really learn? ASVspoof workshop 2021.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings, draw_between
from asdf.audio.sample_rates import resample
from asdf.audio.speech import repeat_to, speech_mask
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import SpeechActivity

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
    multiples = {factor: -(-min_points // factor) for factor in (1, 3, 5)}
    return min(factor << (multiple - 1).bit_length() for factor, multiple in multiples.items())


class Bandwidth(Part):
    """A choice of bandwidth limits, from telephone to nearly wide, one drawn for each clip."""

    min_hz = 3400.0
    max_hz = 7500.0

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.probability
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


class FrequencyMask(Part):
    """Removes frequency bands of drawn widths."""

    count = 2

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.probability
        self.max_hz = section.frequency_mask_max_hz
        self.rate = settings.audio.sample_rate

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Stop the drawn bands of `clip` (T,) float32: (T,) float32."""
        filters = [band_stop(*self.draw(rng), self.rate) for _ in range(self.count)]
        return filter_clip(clip, filters)

    def draw(self, rng: Generator) -> tuple[float, float]:
        """Draw the limits of a band in Hz: its width, then its position."""
        width = draw_between(0.0, min(self.max_hz, self.rate / 2), rng)
        lowest = draw_between(0.0, self.rate / 2 - width, rng)
        return lowest, lowest + width

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"frequency_mask ({self.count} up to {self.max_hz:g} Hz)"


class TimeMask(Part):
    """Silences stretches of drawn lengths."""

    count = 2

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.probability
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

    def draw(self, samples: int, rng: Generator) -> tuple[int, int]:
        """Draw start and length of a stretch of a clip of `samples`: the length first."""
        longest = min(samples, round(self.max_s * self.rate))
        length = int(rng.integers(longest, endpoint=True))
        start = int(rng.integers(samples - length, endpoint=True))
        return start, length

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"time_mask ({self.count} up to {self.max_s:g} s)"


# Shorter speech is probably a click, whose repetition would be a buzz.
_MIN_SPEECH_S = 0.1
# A frame is silent if its energy is more than this below that of the loudest frame.
_SILENT_DB = 40.0


class TrimmedSilence(Part):
    """Shortens the silences at the start and the end to drawn lengths.

    The remaining speech is repeated to the length of a clip, like any short utterance. A crop from
    inside an utterance usually has no silence at its ends and is unchanged.
    """

    shortens = True

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.probability
        self.detection = SpeechActivity(threshold_db=_SILENT_DB, hangover_s=0.0)
        self.max_s = section.silence_max_s
        self.rate = settings.audio.sample_rate

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Return `clip` (T,) float32 with shorter silences: (up to T,) float32.

        Order of the draws: the silence at the start, then that at the end.
        """
        speech = np.flatnonzero(speech_mask(clip, self.detection, self.rate))
        if len(speech) < _MIN_SPEECH_S * self.rate:
            return clip
        first = int(speech[0])
        end = int(speech[-1]) + 1
        start = first - self.draw(first, rng)
        stop = end + self.draw(len(clip) - end, rng)
        return clip[start:stop]

    def draw(self, silence: int, rng: Generator) -> int:
        """Draw how many samples remain of `silence` samples."""
        longest = min(silence, round(self.max_s * self.rate))
        return int(rng.integers(longest, endpoint=True))

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"silence (up to {self.max_s:g} s)"


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
