"""Silences at the ends of the speech, shortened to drawn lengths.

In several corpora, the silence around spoofed speech is shorter than that around bona fide speech,
and a network may learn this instead. Nicolas M. Müller, Franziska Dieckmann, Pavel Czempin, Roman
Canals, Konstantin Böttinger, Jennifer Williams: Speech is silver, silence is golden: what do
ASVspoof-trained models really learn? ASVspoof workshop 2021.

Invariant: no sample between the first and the last frame of speech is lost, and none is added.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.speech import speech_mask
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
