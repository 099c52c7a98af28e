"""A spectrogram inverted with estimated phases, which loses the phases of the voice.

Invariant: only the magnitudes of the voice's spectrogram reach the copy.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.fft import rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import TINY, cut_for_vocoder, invert, mel_filters
from asdf.audio.vocoding.frames import HOP, Array
from asdf.audio.vocoding.synthesis import match_spectrum
from asdf.audio.vocoding.vocoder import Vocoder, normalize

_MAGNITUDES = 257


class GriffinLim(Vocoder):
    """A spectrogram in 80 mel bands, and 16 rounds of estimation of its phases."""

    bands = 80
    rounds = 16

    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of `samples` (T,): (T,)."""
        return griffin_lim(normalize(samples), rng, self.bands, self.rounds)


def griffin_lim(voice: Array, rng: Generator, bands: int, rounds: int) -> Array:
    """Invert a mel spectrogram by rounds of phase estimation.

    Griffin & Lim, 1984.
    """
    in_bands = magnitudes(voice) @ mel_filters(bands, _MAGNITUDES).T
    magnitude = np.maximum(in_bands @ _from_bands(bands), 0)
    wave = estimate_phases(magnitude, len(voice), rng, rounds)
    return match_spectrum(wave, voice)


def magnitudes(voice: Array) -> Array:
    """Return the magnitudes of a spectrogram that `estimate_phases` inverts, (frames, 257)."""
    frames = len(voice) // HOP + 5
    return np.abs(rfft(cut_for_vocoder(voice, frames)))


def estimate_phases(magnitude: Array, samples: int, rng: Generator, rounds: int) -> Array:
    """Return a waveform (samples,) with approximately these magnitudes, from random phases."""
    frames = len(magnitude)
    phase = 2j * np.pi * rng.random(magnitude.shape)
    spectrum = magnitude * np.exp(phase)
    wave = invert(spectrum, samples)
    for _ in range(rounds - 1):
        # The phases of the waveform, combined with the known magnitudes.
        spectrum = rfft(cut_for_vocoder(wave, frames))
        spectrum *= magnitude / (np.abs(spectrum) + TINY)
        wave = invert(spectrum, samples)
    return wave


@cache
def _from_bands(bands: int) -> Array:
    """Return the pseudo-inverse of the mel filters, (bands, 257)."""
    inverse = np.linalg.pinv(mel_filters(bands, _MAGNITUDES))
    return np.asarray(inverse.T, np.float64)
