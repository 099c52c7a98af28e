"""Speech played faster or slower, and silences at its ends shortened to drawn lengths.

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
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.draws import draw_between
from asdf.audio.sample_rates import resample
from asdf.audio.speech import repeat_to, speech_mask
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import SpeechActivity

# Shorter speech is probably a click, whose repetition would be a buzz.
_MIN_SPEECH_S = 0.1


class TrimmedSilence(Part):
    """Shortens the silences at the start and the end to drawn lengths.

    The remaining speech is repeated to the length of a clip, like any short utterance. A crop from
    inside an utterance usually has no silence at its ends and is unchanged.
    """

    shortens = True

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.silence_probability
        self.detection = SpeechActivity(threshold_db=section.silence_threshold_db, hangover_s=0.0)
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
