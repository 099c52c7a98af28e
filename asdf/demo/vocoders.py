"""Four vocoders: the spoof half of the demo corpus.

Invariant: a spoof differs from its voice only in structure. Each vocoder analyses a voice into what
real vocoders preserve (a smooth envelope and F0) and resynthesises it without what they lose: the
phases, the irregular cycles, the fine structure of breath. The constants here are part of the
corpus: changing them would change its samples.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from asdf.audio.vocoding.analysis import (
    BINS,
    FFT,
    Array,
    Excitation,
    analyse,
    draw_noise,
    excite,
    mel_filters,
    regular_wave,
)
from asdf.audio.vocoding.classical import excite_envelope, griffin_lim, predict_and_excite
from asdf.facts import SAMPLE_RATE


def lpc_vocoder(voice: Array, rng: Generator) -> Array:
    """Linear prediction with a regular pulse train or noise, never both."""
    return predict_and_excite(voice, rng, order=20)


def mel_vocoder(voice: Array, rng: Generator) -> Array:
    """A mel spectrogram turned back into a waveform by a few rounds of phase estimation."""
    return griffin_lim(voice, rng, bands=64, rounds=8)


def harmonic_noise(voice: Array, rng: Generator) -> Array:
    """Harmonics of fixed dispersed phases below 4 kHz and noise above, in mel bands.

    After Stylianou, 2001.
    """
    analysis = analyse(voice)
    mel = mel_filters(32, BINS)
    per_bin = mel / (mel.sum(0) + 1e-9)
    from_bands = per_bin / mel.sum(1, keepdims=True)
    in_bands = analysis.power @ mel.T
    envelope = np.sqrt(in_bands @ from_bands)
    bin_of_4_khz = 4000 / SAMPLE_RATE * FFT
    below_4_khz = np.arange(BINS) < bin_of_4_khz
    strength = analysis.voiced[:, None] * below_4_khz
    dispersion = -rng.uniform(0.1, 0.4)
    wave = regular_wave(analysis.f0_hz, len(voice), dispersion)
    noise = draw_noise(voice, rng)
    # Square roots, so that the powers of both add up to that of the envelope.
    harmonics = Excitation(envelope * np.sqrt(strength), wave)
    hiss = Excitation(envelope * np.sqrt(1 - strength), noise)
    return excite(voice, harmonics, hiss)


def cepstral_vocoder(voice: Array, rng: Generator) -> Array:
    """Minimum-phase cepstral envelope with pulses that fade into noise at higher frequencies."""
    return excite_envelope(voice, rng, coefficients=41)


Vocoder = Callable[[Array, Generator], Array]


ATTACKS: dict[str, Vocoder] = {
    "A01": lpc_vocoder,
    "A02": mel_vocoder,
    "A03": harmonic_noise,
    "A04": cepstral_vocoder,
}
