"""Four vocoders: the spoof half of the demo corpus.

Invariant: a spoof differs from its voice only in structure. Each vocoder analyses a voice into what
real vocoders preserve (a smooth envelope and F0) and resynthesises it without what they lose: the
phases, the irregular cycles, the fine structure of breath. The constants here are part of the
corpus: changing them would change its samples.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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


ATTACKS: dict[str, Callable[[Array, Generator], Array]] = {
    # Linear prediction with a regular pulse train or noise, never both.
    "A01": partial(predict_and_excite, order=20),
    # A mel spectrogram turned back into a waveform by a few rounds of phase estimation.
    "A02": partial(griffin_lim, bands=64, rounds=8),
    "A03": harmonic_noise,
    # Minimum-phase cepstral envelope with pulses that fade into noise at higher frequencies.
    "A04": partial(excite_envelope, coefficients=41),
}
