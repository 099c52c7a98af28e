"""A smooth envelope and F0, excited by pulses that fade into noise at higher frequencies.

Invariant: the filter has a minimum phase, whatever phases the voice had.
"""

from __future__ import annotations

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import BINS, FFT, analyse
from asdf.audio.vocoding.frames import Array
from asdf.audio.vocoding.synthesis import Excitation, draw_noise, excite, regular_wave
from asdf.audio.vocoding.vocoder import Vocoder, VocoderSettings, normalize


class SourceFilter(Vocoder):
    """An envelope of `vocoding.envelope_coefficients`, with pulses and noise, as in WORLD."""

    def __init__(self, settings: VocoderSettings) -> None:
        super().__init__(settings)
        self.coefficients = settings.vocoding.envelope_coefficients

    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of `samples` (T,): (T,)."""
        return excite_envelope(normalize(samples), rng, self.coefficients)


def excite_envelope(voice: Array, rng: Generator, coefficients: int) -> Array:
    """Minimum-phase cepstral envelope with pulses that fade into noise at higher frequencies.

    After Morise et al., WORLD, 2016.
    """
    analysis = analyse(voice)
    floor = 1e-9 * analysis.power.mean()
    log_magnitude = 0.5 * np.log(analysis.power + floor)
    cepstrum = irfft(log_magnitude)[:, :coefficients]
    angle = np.pi * np.arange(coefficients) / coefficients
    cepstrum *= 0.5 + 0.5 * np.cos(angle)
    # A cepstrum without negative times is that of a minimum phase.
    cepstrum[:, 1:] *= 2
    response = np.exp(rfft(cepstrum, FFT))
    # How much of each frequency is voice.
    fading = np.linspace(0.97, 0.3, BINS)
    strength = analysis.voiced[:, None] * fading
    dispersion = rng.uniform(0.01, 0.08)
    pulses = regular_wave(analysis.f0_hz, len(voice), dispersion)
    noise = draw_noise(voice, rng)
    voiced = Excitation(response * np.sqrt(strength), pulses)
    hiss = Excitation(response * np.sqrt(1 - strength), noise)
    return excite(voice, voiced, hiss)
