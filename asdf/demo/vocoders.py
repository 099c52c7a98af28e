"""Four vocoders: the spoof half of the demo corpus.

Invariant: a spoof differs from its voice in structure only. Each vocoder analyses a voice into what
real ones keep (a smooth envelope and F0) and rebuilds it with what they lose: the phases, the
irregular cycles, the fine structure of breath. What would betray a spoof to a level meter is put
back by `_match_spectrum`: the long-term spectrum and the level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator
from numpy.typing import NDArray

from asdf.demo.filters import (
    HOP,
    SAMPLE_RATE,
    Array,
    cut,
    overlap_add,
    round_up,
    slide,
    smooth,
    squared_sine,
)

_WINDOW = 512
_FFT = 1024
_BINS = _FFT // 2 + 1
_LPC_ORDER = 20
_CEPSTRUM = 41
_ROUNDS = 8
_WAVE_POINTS = 2048
# Lags of F0 between 73 and 355 Hz, in samples.
_FIRST_LAG = 45
_LAST_LAG = 220
_LAGS = 240
# The bands in which a spoof gets the spectrum of its voice, and the frequencies they are made of.
_MATCHED_BANDS = 24
_MATCHED_BINS = 1024
# Divisors that may be 0 are this much larger.
_TINY = 1e-12


@dataclass(frozen=True)
class _Excitation:
    """A source (samples,), and the filter for each of its frames: (frames, 513)."""

    response: NDArray[np.inexact]
    source: Array


@dataclass(frozen=True)
class _Analysis:
    """What a vocoder knows of a voice, frame by frame.

    Attributes:
        power: (frames, 513), power spectra of unit-variance scale.
        f0_hz: (frames,), smoothed; interpolated where there is no voice.
        voiced: (frames,), 0 or 1.
    """

    power: Array
    f0_hz: Array
    voiced: Array


def lpc_vocoder(voice: Array, rng: Generator) -> Array:
    """Linear prediction with a regular pulse train or noise, never both (Atal & Hanauer, 1971)."""
    analysis = _analyse(voice)
    correlation = irfft(analysis.power)[:, : _LPC_ORDER + 1]
    # A little white noise, which keeps the predictor stable.
    correlation[:, 0] *= 1.0001
    error, predictor = _predict_linearly(correlation)
    gain = np.sqrt(error)[:, None]
    response = gain / rfft(predictor, _FFT)
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
    mel = _mel_filters(64, 257)
    magnitude = np.abs(rfft(_cut_for_vocoder(voice, frames)))
    in_bands = magnitude @ mel.T
    from_bands = np.linalg.pinv(mel).T
    magnitude = np.maximum(in_bands @ from_bands, 0)
    phase = 2j * np.pi * rng.random(magnitude.shape)
    spectrum = magnitude * np.exp(phase)
    wave = _invert(spectrum, len(voice))
    for _ in range(_ROUNDS - 1):
        # The phases of the waveform, with the magnitudes that are known.
        spectrum = rfft(_cut_for_vocoder(wave, frames))
        spectrum *= magnitude / (np.abs(spectrum) + _TINY)
        wave = _invert(spectrum, len(voice))
    return _match_spectrum(wave, voice)


def harmonic_noise(voice: Array, rng: Generator) -> Array:
    """Harmonics of fixed dispersed phases below 4 kHz and noise above, in mel bands.

    After Stylianou, 2001.
    """
    analysis = _analyse(voice)
    mel = _mel_filters(32, _BINS)
    per_bin = mel / (mel.sum(0) + 1e-9)
    from_bands = per_bin / mel.sum(1, keepdims=True)
    in_bands = analysis.power @ mel.T
    envelope = np.sqrt(in_bands @ from_bands)
    bin_of_4_khz = 4000 / SAMPLE_RATE * _FFT
    below_4_khz = np.arange(_BINS) < bin_of_4_khz
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
    analysis = _analyse(voice)
    floor = 1e-9 * analysis.power.mean()
    log_magnitude = 0.5 * np.log(analysis.power + floor)
    cepstrum = irfft(log_magnitude)[:, :_CEPSTRUM]
    angle = np.pi * np.arange(_CEPSTRUM) / _CEPSTRUM
    cepstrum *= 0.5 + 0.5 * np.cos(angle)
    # A cepstrum without negative times is that of a minimum phase.
    cepstrum[:, 1:] *= 2
    response = np.exp(rfft(cepstrum, _FFT))
    # How much of each frequency is voice.
    fading = np.linspace(0.97, 0.3, _BINS)
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


@cache
def _hann() -> Array:
    return squared_sine(_WINDOW)


@cache
def _mel_filters(bands: int, bins: int) -> Array:
    """Return triangular filters evenly spaced in mel, (bands, bins)."""
    hz = np.linspace(0, SAMPLE_RATE / 2, bins)
    mel = 2595 * np.log10(1 + hz / 700)
    centres = np.linspace(0, mel[-1], bands)
    distance = np.abs(mel - centres[:, None])
    width = centres[1]
    return np.maximum(0, 1 - distance / width)


def _cut_for_vocoder(signal: Array, count: int) -> Array:
    """Return Hann-windowed frames (count, 512); frame i is centred on sample (i - 1) HOP."""
    padded = np.zeros((count + 3) * HOP)
    padded[3 * HOP :][: len(signal)] = signal
    return slide(padded, _WINDOW)[::HOP] * _hann()


def _invert(spectrum: NDArray[np.complex128], samples: int) -> Array:
    """Return the waveform of a spectrogram of `_cut_for_vocoder`, (samples,)."""
    frames = irfft(spectrum) * _hann()
    wave = overlap_add(frames, HOP)
    # The squares of windows that overlap four times add up to 1.5.
    return wave[3 * HOP :][:samples] / 1.5


def _analyse(voice: Array) -> _Analysis:
    frames = len(voice) // HOP + 2
    cut_voice = _cut_for_vocoder(voice, frames + 1)[1:]
    spectra = rfft(cut_voice, _FFT)
    energy_of_window = np.sum(_hann() ** 2)
    power = np.abs(spectra) ** 2 / energy_of_window
    correlation = irfft(power)[:, :_LAGS]
    energy = correlation[:, :1]
    # The window makes the correlation fall at longer lags, which would favour a high F0.
    spectrum_of_window = rfft(_hann(), _FFT)
    of_window = irfft(np.abs(spectrum_of_window) ** 2)[:_LAGS]
    normal_of_window = of_window / of_window[0]
    normal = correlation / (energy + _TINY) / normal_of_window
    lag, top = _find_pitch_lags(normal)
    is_loud = correlation[:, 0] > 1e-3 * energy.max()
    voiced = (top > 0.5) & is_loud
    f0_hz = _smooth_f0(SAMPLE_RATE / lag, voiced)
    return _Analysis(power, f0_hz, voiced.astype(float))


def _find_pitch_lags(normal: Array) -> tuple[Array, Array]:
    """Return the lag of the highest peak, and its height, (frames,) each.

    The lag is in samples, to a fraction.

    Args:
        normal: (frames, lags), normalised autocorrelations.
    """
    # A slight preference for short lags keeps the tracker from halving F0.
    preference = 0.0006 * np.arange(_LAST_LAG - _FIRST_LAG)
    preferred = normal[:, _FIRST_LAG:_LAST_LAG] - preference
    lag = _FIRST_LAG + np.argmax(preferred, axis=1)
    row = np.arange(len(normal))
    left = normal[row, lag - 1]
    top = normal[row, lag]
    right = normal[row, lag + 1]
    # The vertex of the parabola through the three.
    curvature = left - 2 * top + right - 1e-9
    offset = 0.5 * (left - right) / curvature
    return lag + offset.clip(-0.5, 0.5), top


def _smooth_f0(f0_hz: Array, voiced: NDArray[np.bool_]) -> Array:
    """Return F0 in Hz, interpolated over frames without voice, by a median and an average."""
    log_f0 = np.log(f0_hz)
    frames = len(f0_hz)
    known = np.flatnonzero(voiced)
    if len(known):
        contour = np.interp(np.arange(frames), known, log_f0[known])
    else:
        contour = np.full(frames, np.log(120.0))
    padded = np.pad(contour, 3, mode="edge")
    middle = np.median(slide(padded, 7), axis=1)
    return np.exp(smooth(middle, 9))


def _predict_linearly(correlation: Array) -> tuple[Array, Array]:
    """Solve for linear predictors by the recursion of Levinson and Durbin.

    Args:
        correlation: (frames, order + 1), autocorrelations.

    Returns:
        Prediction error (frames,) and predictor (frames, order + 1).
    """
    predictor = np.zeros_like(correlation)
    predictor[:, 0] = 1
    error = correlation[:, 0] + _TINY
    for order in range(1, correlation.shape[1]):
        reversed_correlation = correlation[:, order:0:-1]
        products = predictor[:, :order] * reversed_correlation
        reflection = -np.sum(products, axis=1) / error
        reversed_predictor = predictor[:, order - 1 :: -1][:, :order]
        correction = reflection[:, None] * reversed_predictor
        predictor[:, 1 : order + 1] += correction
        error = error * (1 - reflection**2)
    return error, predictor


def _per_sample(track: Array, samples: int) -> Array:
    """Interpolate a track of frames: (samples,)."""
    frame_of_sample = np.arange(samples) / HOP
    return np.interp(frame_of_sample, np.arange(len(track)), track)


def _draw_noise(voice: Array, rng: Generator) -> Array:
    return rng.standard_normal(len(voice))


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
    return wave / cycle.std()


def _excite(voice: Array, *parts: _Excitation) -> Array:
    """Filter sources by responses and add them up, with the spectrum and level of `voice`."""
    frames = len(voice) // HOP + 2
    total = np.zeros((frames, _BINS), dtype=complex)
    for part in parts:
        spectrum = rfft(cut(part.source, frames), _FFT)
        total += part.response * spectrum
    wave = overlap_add(irfft(total), HOP)
    return _match_spectrum(wave[HOP : HOP + len(voice)], voice)


def _match_spectrum(spoof: Array, voice: Array) -> Array:
    """Give `spoof` the long-term spectrum of `voice` in 24 mel bands."""
    size = round_up(len(voice), 2 * _MATCHED_BINS)
    bands = _mel_filters(_MATCHED_BANDS, _MATCHED_BINS + 1)[:, :_MATCHED_BINS]
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
    return bands @ frequencies_of_bins.mean(1) + 1e-9
