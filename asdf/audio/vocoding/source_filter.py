"""A smooth envelope and F0, excited by pulses with more noise at higher frequencies.

Invariant: the filter has minimum phase, whatever the phases of the voice.
"""

from __future__ import annotations

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import BINS, FFT, analyse
from asdf.audio.vocoding.frames import Array
from asdf.audio.vocoding.synthesis import Excitation, draw_noise, excite, regular_wave
from asdf.audio.vocoding.vocoder import Vocoder, normalize


class SourceFilter(Vocoder):
    """An envelope of 41 cepstral coefficients, with pulses and noise, as in WORLD."""

    coefficients = 41

    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of `samples` (T,): (T,)."""
        return excite_envelope(normalize(samples), rng, self.coefficients)


def excite_envelope(voice: Array, rng: Generator, coefficients: int) -> Array:
    """Copy a voice with a minimum-phase cepstral envelope, excited by pulses and noise.

    The method follows Morise et al., WORLD, 2016; pulses fade into noise at higher frequencies.
    """
    analysis = analyse(voice)
    floor = 1e-9 * analysis.power.mean()
    log_magnitude = 0.5 * np.log(analysis.power + floor)
    cepstrum = irfft(log_magnitude)[:, :coefficients]
    angle = np.pi * np.arange(coefficients) / coefficients
    cepstrum *= 0.5 + 0.5 * np.cos(angle)
    # Minimum phase is a cepstrum without negative times.
    cepstrum[:, 1:] *= 2
    response = np.exp(rfft(cepstrum, FFT))
    # The voiced proportion at each frequency.
    fading = np.linspace(0.97, 0.3, BINS)
    strength = analysis.voiced[:, None] * fading
    dispersion = rng.uniform(0.01, 0.08)
    pulses = regular_wave(analysis.f0_hz, len(voice), dispersion)
    noise = draw_noise(voice, rng)
    voiced = Excitation(response * np.sqrt(strength), pulses)
    hiss = Excitation(response * np.sqrt(1 - strength), noise)
    return excite(voice, voiced, hiss)
