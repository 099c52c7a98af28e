"""Four vocoders: the spoof half of the demo corpus.

Invariant: a spoof differs from its voice in structure only. Each vocoder analyses a voice into what
real ones keep (a smooth envelope and F0) and rebuilds it with what they lose: the phases, the
irregular cycles, the fine structure of breath. What would betray a spoof to a level meter is put
back by `_match_spectrum`: the long-term spectrum and the level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator
from numpy.typing import NDArray

from asdf.demo.analysis import (
    BINS,
    FFT,
    TINY,
    analyse,
    cut_for_vocoder,
    invert,
    mel_filters,
    predict_linearly,
)
from asdf.demo.filters import HOP, Array, cut, overlap_add, round_up
from asdf.facts import SAMPLE_RATE

_LPC_ORDER = 20
_CEPSTRUM = 41
_ROUNDS = 8
_WAVE_POINTS = 2048
# The bands in which a spoof gets the spectrum of its voice, and the frequencies they are made of.
_MATCHED_BANDS = 24
_MATCHED_BINS = 1024


@dataclass(frozen=True)
class _Excitation:
    """A source (samples,), and the filter for each of its frames: (frames, 513)."""

    response: NDArray[np.inexact]
    source: Array


def lpc_vocoder(voice: Array, rng: Generator) -> Array:
    """Linear prediction with a regular pulse train or noise, never both (Atal & Hanauer, 1971)."""
    analysis = analyse(voice)
    correlation = irfft(analysis.power)[:, : _LPC_ORDER + 1]
    # A little white noise, which keeps the predictor stable.
    correlation[:, 0] *= 1.0001
    error, predictor = predict_linearly(correlation)
    gain = np.sqrt(error)[:, None]
    response = gain / rfft(predictor, FFT)
    dispersion = rng.uniform(0.1, 0.4)
    pulses = _regular_wave(analysis.f0_hz, len(voice), dispersion)
    is_voiced = _per_sample(analysis.voiced, len(voice)) > 0.5
    source = np.where(is_voiced, pulses, _draw_noise(voice, rng))
    return _excite(voice, _Excitation(response, source))


def griffin_lim(voice: Array, rng: Generator) -> Array:
    """A mel spectrogram turned back into a waveform by a few rounds of phase estimation.

    Griffin & Lim, 1984.
    """
    frames = len(voice) // HOP + 5
    mel = mel_filters(64, 257)
    magnitude = np.abs(rfft(cut_for_vocoder(voice, frames)))
    in_bands = magnitude @ mel.T
    from_bands = np.linalg.pinv(mel).T
    magnitude = np.maximum(in_bands @ from_bands, 0)
    phase = 2j * np.pi * rng.random(magnitude.shape)
    spectrum = magnitude * np.exp(phase)
    wave = invert(spectrum, len(voice))
    for _ in range(_ROUNDS - 1):
        # The phases of the waveform, with the magnitudes that are known.
        spectrum = rfft(cut_for_vocoder(wave, frames))
        spectrum *= magnitude / (np.abs(spectrum) + TINY)
        wave = invert(spectrum, len(voice))
    return _match_spectrum(wave, voice)


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
    wave = _regular_wave(analysis.f0_hz, len(voice), dispersion)
    noise = _draw_noise(voice, rng)
    harmonics = _Excitation(envelope * np.sqrt(strength), wave)
    hiss = _Excitation(envelope * np.sqrt(1 - strength), noise)
    return _excite(voice, harmonics, hiss)


def cepstral_vocoder(voice: Array, rng: Generator) -> Array:
    """Minimum-phase cepstral envelope with pulses that fade into noise at higher frequencies.

    After Morise et al., WORLD, 2016.
    """
    analysis = analyse(voice)
    floor = 1e-9 * analysis.power.mean()
    log_magnitude = 0.5 * np.log(analysis.power + floor)
    cepstrum = irfft(log_magnitude)[:, :_CEPSTRUM]
    angle = np.pi * np.arange(_CEPSTRUM) / _CEPSTRUM
    cepstrum *= 0.5 + 0.5 * np.cos(angle)
    # A cepstrum without negative times is that of a minimum phase.
    cepstrum[:, 1:] *= 2
    response = np.exp(rfft(cepstrum, FFT))
    # How much of each frequency is voice.
    fading = np.linspace(0.97, 0.3, BINS)
    strength = analysis.voiced[:, None] * fading
    dispersion = rng.uniform(0.01, 0.08)
    pulses = _regular_wave(analysis.f0_hz, len(voice), dispersion)
    noise = _draw_noise(voice, rng)
    voiced = _Excitation(response * np.sqrt(strength), pulses)
    hiss = _Excitation(response * np.sqrt(1 - strength), noise)
    return _excite(voice, voiced, hiss)


Vocoder = Callable[[Array, Generator], Array]


ATTACKS: dict[str, Vocoder] = {
    "A01": lpc_vocoder,
    "A02": griffin_lim,
    "A03": harmonic_noise,
    "A04": cepstral_vocoder,
}


def _regular_wave(f0_hz: Array, samples: int, dispersion: float) -> Array:
    """Return a perfectly regular wave of unit variance, (samples,), of equal harmonics.

    The phase of each harmonic is `dispersion` cycles after that of the last. Dispersed pulses sound
    less buzzy (LPC-10); they have lost the sharp closures of a glottis.
    """
    below_nyquist = SAMPLE_RATE / 2 // np.median(f0_hz)
    harmonics = np.arange(1.0, below_nyquist + 1)
    spectrum = np.zeros(_WAVE_POINTS // 2 + 1, dtype=complex)
    phases = -1j * np.pi * dispersion * harmonics**2
    spectrum[1 : len(harmonics) + 1] = np.exp(phases)
    cycle = irfft(spectrum)
    cycles = np.cumsum(_per_sample(f0_hz, samples)) / SAMPLE_RATE
    point = cycles % 1 * _WAVE_POINTS
    # The point after the last is the first of the next cycle.
    closed = np.append(cycle, cycle[0])
    wave = np.interp(point, np.arange(_WAVE_POINTS + 1), closed)
    normalized: Array = wave / cycle.std()
    return normalized


def _per_sample(track: Array, samples: int) -> Array:
    """Interpolate a track of frames: (samples,)."""
    frame_of_sample = np.arange(samples) / HOP
    return np.interp(frame_of_sample, np.arange(len(track)), track)


def _draw_noise(voice: Array, rng: Generator) -> Array:
    return rng.standard_normal(len(voice))


def _excite(voice: Array, *parts: _Excitation) -> Array:
    """Filter sources by responses and add them up, with the spectrum and level of `voice`."""
    frames = len(voice) // HOP + 2
    total = np.zeros((frames, BINS), dtype=complex)
    for part in parts:
        spectrum = rfft(cut(part.source, frames), FFT)
        total += part.response * spectrum
    wave = overlap_add(irfft(total), HOP)
    return _match_spectrum(wave[HOP : HOP + len(voice)], voice)


def _match_spectrum(spoof: Array, voice: Array) -> Array:
    """Give `spoof` the long-term spectrum of `voice` in 24 mel bands."""
    size = round_up(len(voice), 2 * _MATCHED_BINS)
    bands = mel_filters(_MATCHED_BANDS, _MATCHED_BINS + 1)[:, :_MATCHED_BINS]
    spectrum = rfft(spoof, size)
    wanted = _measure_levels(rfft(voice, size), bands)
    ratio = wanted / _measure_levels(spectrum, bands)
    share_of_bands = bands / bands.sum(0)
    gain = np.sqrt(ratio) @ share_of_bands
    frequencies_per_bin = size // (2 * _MATCHED_BINS)
    centres = np.arange(_MATCHED_BINS) * frequencies_per_bin
    gain_of_frequency = np.interp(np.arange(len(spectrum)), centres, gain)
    shaped = spectrum * gain_of_frequency
    return irfft(shaped, size)[: len(voice)]


def _measure_levels(spectrum: NDArray[np.complex128], bands: Array) -> Array:
    """Return the mean power of a spectrum in bands (count, bins): (count,)."""
    power = np.abs(spectrum) ** 2
    bins = bands.shape[1]
    frequencies_of_bins = power[:-1].reshape(bins, -1)
    levels: Array = bands @ frequencies_of_bins.mean(1) + 1e-9
    return levels
