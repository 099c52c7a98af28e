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
from numpy.typing import NDArray

from asdf.demo.filters import HOP, SAMPLE_RATE, Array, cut, overlap_add, smooth

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


def lpc_vocoder(voice: Array, rng: np.random.Generator) -> Array:
    """Linear prediction with a regular pulse train or noise, never both (Atal & Hanauer, 1971)."""
    analysis = _analyse(voice)
    correlation = np.fft.irfft(analysis.power)[:, : _LPC_ORDER + 1]
    correlation[:, 0] *= 1.0001
    error, predictor = _levinson(correlation)
    response = np.sqrt(error)[:, None] / np.fft.rfft(predictor, _FFT)
    pulses = _regular_wave(analysis.f0_hz, len(voice), rng.uniform(0.1, 0.4))
    is_voiced = _per_sample(analysis.voiced, len(voice)) > 0.5
    source = np.where(is_voiced, pulses, _noise(voice, rng))
    return _excite(voice, (response, source))


def griffin_lim(voice: Array, rng: np.random.Generator) -> Array:
    """A mel spectrogram turned back into a waveform by a few rounds of phase estimation.

    Griffin & Lim, 1984.
    """
    frames = len(voice) // HOP + 5
    mel = _mel_filters(64, 257)
    magnitude = np.abs(np.fft.rfft(_frames(voice, frames)))
    magnitude = np.maximum(magnitude @ mel.T @ np.linalg.pinv(mel).T, 0)
    spectrum = magnitude * np.exp(2j * np.pi * rng.random(magnitude.shape))
    wave = _invert(spectrum, len(voice))
    for _ in range(_ROUNDS - 1):
        spectrum = np.fft.rfft(_frames(wave, frames))
        spectrum *= magnitude / (np.abs(spectrum) + 1e-12)
        wave = _invert(spectrum, len(voice))
    return _match_spectrum(wave, voice)


def harmonic_noise(voice: Array, rng: np.random.Generator) -> Array:
    """Harmonics of fixed dispersed phases below 4 kHz and noise above, in mel bands.

    After Stylianou, 2001.
    """
    analysis = _analyse(voice)
    mel = _mel_filters(32, _BINS)
    from_bands = mel / (mel.sum(0) + 1e-9) / mel.sum(1, keepdims=True)
    envelope = np.sqrt(analysis.power @ mel.T @ from_bands)
    below_4_khz = np.arange(_BINS) < 4000 / SAMPLE_RATE * _FFT
    strength = analysis.voiced[:, None] * below_4_khz
    wave = _regular_wave(analysis.f0_hz, len(voice), -rng.uniform(0.1, 0.4))
    harmonics = (envelope * np.sqrt(strength), wave)
    hiss = (envelope * np.sqrt(1 - strength), _noise(voice, rng))
    return _excite(voice, harmonics, hiss)


def cepstral_vocoder(voice: Array, rng: np.random.Generator) -> Array:
    """Minimum-phase cepstral envelope with pulses that fade into noise at higher frequencies.

    After Morise et al., WORLD, 2016.
    """
    analysis = _analyse(voice)
    log_magnitude = 0.5 * np.log(analysis.power + 1e-9 * analysis.power.mean())
    cepstrum = np.fft.irfft(log_magnitude)[:, :_CEPSTRUM]
    cepstrum *= 0.5 + 0.5 * np.cos(np.pi * np.arange(_CEPSTRUM) / _CEPSTRUM)
    cepstrum[:, 1:] *= 2
    response = np.exp(np.fft.rfft(cepstrum, _FFT))
    strength = analysis.voiced[:, None] * np.linspace(0.97, 0.3, _BINS)
    pulses = _regular_wave(analysis.f0_hz, len(voice), rng.uniform(0.01, 0.08))
    voiced_part = (response * np.sqrt(strength), pulses)
    hiss = (response * np.sqrt(1 - strength), _noise(voice, rng))
    return _excite(voice, voiced_part, hiss)


ATTACKS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "A01": lpc_vocoder,
    "A02": griffin_lim,
    "A03": harmonic_noise,
    "A04": cepstral_vocoder,
}


@cache
def _hann() -> Array:
    return np.sin(np.pi * (np.arange(_WINDOW) + 0.5) / _WINDOW) ** 2


@cache
def _mel_filters(bands: int, bins: int) -> Array:
    """Return triangular filters evenly spaced in mel, (bands, bins)."""
    hz = np.linspace(0, SAMPLE_RATE / 2, bins)
    mel = 2595 * np.log10(1 + hz / 700)
    centres = np.linspace(0, mel[-1], bands)
    return np.maximum(0, 1 - np.abs(mel - centres[:, None]) / centres[1])


def _frames(signal: Array, count: int) -> Array:
    """Return Hann-windowed frames (count, 512); frame i is centred on sample (i - 1) HOP."""
    padded = np.zeros((count + 3) * HOP)
    padded[3 * HOP :][: len(signal)] = signal
    return np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP] * _hann()


def _invert(spectrum: NDArray[np.complex128], samples: int) -> Array:
    """Return the waveform of a spectrogram of `_frames`, (samples,)."""
    wave = overlap_add(np.fft.irfft(spectrum) * _hann(), HOP)
    # The squares of windows that overlap four times add up to 1.5.
    return wave[3 * HOP :][:samples] / 1.5


def _analyse(voice: Array) -> _Analysis:
    frames = len(voice) // HOP + 2
    spectra = np.fft.rfft(_frames(voice, frames + 1)[1:], _FFT)
    power = np.abs(spectra) ** 2 / np.sum(_hann() ** 2)
    correlation = np.fft.irfft(power)[:, :240]
    of_window = np.fft.irfft(np.abs(np.fft.rfft(_hann(), _FFT)) ** 2)[:240]
    normal = correlation / (correlation[:, :1] + 1e-12) / (of_window / of_window[0])
    lag, top = _pitch_lags(normal)
    is_loud = correlation[:, 0] > 1e-3 * correlation[:, 0].max()
    voiced = (top > 0.5) & is_loud
    return _Analysis(power, _smooth_f0(SAMPLE_RATE / lag, voiced), voiced.astype(float))


def _pitch_lags(normal: Array) -> tuple[Array, Array]:
    """Return the lag of the highest peak, to a fraction of a sample, and its height, (frames,) each.

    Args:
        normal: (frames, lags), normalised autocorrelations.
    """
    # A slight preference for short lags keeps the tracker from halving F0.
    preference = 0.0006 * np.arange(_LAST_LAG - _FIRST_LAG)
    lag = _FIRST_LAG + np.argmax(normal[:, _FIRST_LAG:_LAST_LAG] - preference, axis=1)
    row = np.arange(len(normal))
    left = normal[row, lag - 1]
    top = normal[row, lag]
    right = normal[row, lag + 1]
    # The vertex of the parabola through the three.
    offset = 0.5 * (left - right) / (left - 2 * top + right - 1e-9)
    return lag + offset.clip(-0.5, 0.5), top


def _smooth_f0(f0_hz: Array, voiced: NDArray[np.bool_]) -> Array:
    """Return F0 in Hz, interpolated over frames without voice, by a median and an average."""
    log_f0 = np.log(f0_hz)
    known = np.flatnonzero(voiced)
    if len(known):
        contour = np.interp(np.arange(len(f0_hz)), known, log_f0[known])
    else:
        contour = np.full(len(f0_hz), np.log(120.0))
    padded = np.pad(contour, 3, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7), axis=1)
    return np.exp(smooth(middle, 9))


def _levinson(correlation: Array) -> tuple[Array, Array]:
    """Solve for linear predictors by the recursion of Levinson and Durbin.

    Args:
        correlation: (frames, order + 1), autocorrelations.

    Returns:
        Prediction error (frames,) and predictor (frames, order + 1).
    """
    predictor = np.zeros_like(correlation)
    predictor[:, 0] = 1
    error = correlation[:, 0] + 1e-12
    for order in range(1, correlation.shape[1]):
        reflection = -np.sum(predictor[:, :order] * correlation[:, order:0:-1], axis=1) / error
        reversed_predictor = predictor[:, order - 1 :: -1][:, :order]
        predictor[:, 1 : order + 1] += reflection[:, None] * reversed_predictor
        error = error * (1 - reflection**2)
    return error, predictor


def _per_sample(track: Array, samples: int) -> Array:
    return np.interp(np.arange(samples) / HOP, np.arange(len(track)), track)


def _noise(voice: Array, rng: np.random.Generator) -> Array:
    return rng.standard_normal(len(voice))


def _regular_wave(f0_hz: Array, samples: int, dispersion: float) -> Array:
    """Return a perfectly regular wave of unit variance, (samples,), of equal harmonics.

    The phase of each harmonic is `dispersion` cycles after that of the last. Dispersed pulses sound
    less buzzy (LPC-10); they have lost the sharp closures of a glottis.
    """
    harmonics = np.arange(1.0, SAMPLE_RATE / 2 // np.median(f0_hz) + 1)
    spectrum = np.zeros(_WAVE_POINTS // 2 + 1, dtype=complex)
    spectrum[1 : len(harmonics) + 1] = np.exp(-1j * np.pi * dispersion * harmonics**2)
    cycle = np.fft.irfft(spectrum)
    phase = np.cumsum(_per_sample(f0_hz, samples)) / SAMPLE_RATE
    points = np.arange(_WAVE_POINTS + 1)
    wave = np.interp(phase % 1 * _WAVE_POINTS, points, np.append(cycle, cycle[0]))
    return wave / cycle.std()


def _excite(voice: Array, *parts: tuple[NDArray[np.inexact], Array]) -> Array:
    """Filter sources by responses and add them up, with the spectrum and level of `voice`.

    Args:
        parts: (response, source): (frames, 513) and (samples,).
    """
    frames = len(voice) // HOP + 2
    total = np.zeros((frames, _BINS), dtype=complex)
    for response, source in parts:
        total += response * np.fft.rfft(cut(source, frames), _FFT)
    wave = overlap_add(np.fft.irfft(total), HOP)[HOP : HOP + len(voice)]
    return _match_spectrum(wave, voice)


def _match_spectrum(spoof: Array, voice: Array) -> Array:
    """Give `spoof` the long-term spectrum of `voice` in 24 mel bands."""
    bins = 1024
    size = -(-len(voice) // (2 * bins)) * 2 * bins
    spectrum = np.fft.rfft(spoof, size)
    bands = _mel_filters(24, bins + 1)[:, :bins]

    def levels(of: NDArray[np.complex128]) -> Array:
        power = np.abs(of) ** 2
        return bands @ power[:-1].reshape(bins, -1).mean(1) + 1e-9

    ratio = levels(np.fft.rfft(voice, size)) / levels(spectrum)
    gain = np.sqrt(ratio) @ (bands / bands.sum(0))
    centres = np.arange(bins) * (size // (2 * bins))
    shaped = spectrum * np.interp(np.arange(len(spectrum)), centres, gain)
    return np.fft.irfft(shaped, size)[: len(voice)]
