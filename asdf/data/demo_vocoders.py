"""Four vocoders: the spoof half of the demo corpus.

Invariant: a spoof differs from its voice in structure only. Each vocoder analyses a voice into what real ones keep
(a smooth envelope and F0) and rebuilds it with what they lose: the phases, the irregular cycles, the fine structure
of breath. What would betray a spoof to a level meter is put back by `_alike`: the long-term spectrum and the level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from asdf.data.demo_filters import HOP, SAMPLE_RATE, Array, cut, overlap_add, smooth

_WINDOW = 512
_FFT = 1024
_BINS = _FFT // 2 + 1


def lpc_vocoder(voice: Array, rng: np.random.Generator) -> Array:
    """Linear prediction with a regular pulse train or noise, never both (Atal & Hanauer, 1971)."""
    power, f0_hz, voiced = _analyse(voice)
    correlation = np.fft.irfft(power)[:, :21]
    correlation[:, 0] *= 1.0001
    error, predictor = _levinson(correlation)
    response = np.sqrt(error)[:, None] / np.fft.rfft(predictor, _FFT)
    pulses = _wave(f0_hz, len(voice), rng.uniform(0.1, 0.4))
    return _excite(
        voice, (response, np.where(_hold(voiced, len(voice)) > 0.5, pulses, _noise(voice, rng)))
    )


def griffin_lim(voice: Array, rng: np.random.Generator) -> Array:
    """A mel spectrogram turned back into a waveform by a few rounds of phase estimation (Griffin & Lim, 1984)."""
    frames = len(voice) // HOP + 5
    mel = _mel(64, 257)
    magnitude = np.abs(np.fft.rfft(_frames(voice, frames)))
    magnitude = np.maximum(magnitude @ mel.T @ np.linalg.pinv(mel).T, 0)
    spectrum = magnitude * np.exp(2j * np.pi * rng.random(magnitude.shape))
    for turn in range(8):
        wave = overlap_add(np.fft.irfft(spectrum) * _hann(), HOP)[3 * HOP :][: len(voice)] / 1.5
        if turn < 7:
            spectrum = np.fft.rfft(_frames(wave, frames))
            spectrum *= magnitude / (np.abs(spectrum) + 1e-12)
    return _alike(wave, voice)


def harmonic_noise(voice: Array, rng: np.random.Generator) -> Array:
    """Harmonics of fixed dispersed phases below 4 kHz and noise above, in mel bands (after Stylianou, 2001)."""
    power, f0_hz, voiced = _analyse(voice)
    mel = _mel(32, _BINS)
    envelope = np.sqrt(power @ mel.T @ (mel / (mel.sum(0) + 1e-9) / mel.sum(1, keepdims=True)))
    strength = voiced[:, None] * (np.arange(_BINS) < 4000 / SAMPLE_RATE * _FFT)
    wave = _wave(f0_hz, len(voice), -rng.uniform(0.1, 0.4))
    hiss = _noise(voice, rng)
    return _excite(
        voice, (envelope * np.sqrt(strength), wave), (envelope * np.sqrt(1 - strength), hiss)
    )


def cepstral_vocoder(voice: Array, rng: np.random.Generator) -> Array:
    """Minimum-phase cepstral envelope with pulses that fade into noise upwards (after Morise et al., WORLD, 2016)."""
    power, f0_hz, voiced = _analyse(voice)
    cepstrum = np.fft.irfft(0.5 * np.log(power + 1e-9 * power.mean()))[:, :41]
    cepstrum *= 0.5 + 0.5 * np.cos(np.pi * np.arange(41) / 41)
    cepstrum[:, 1:] *= 2
    response = np.exp(np.fft.rfft(cepstrum, _FFT))
    strength = voiced[:, None] * np.linspace(0.97, 0.3, _BINS)
    pulses = _wave(f0_hz, len(voice), rng.uniform(0.01, 0.08))
    hiss = _noise(voice, rng)
    return _excite(
        voice, (response * np.sqrt(strength), pulses), (response * np.sqrt(1 - strength), hiss)
    )


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
def _mel(bands: int, bins: int) -> Array:
    """Triangular filters evenly spaced in mel: (bands, bins)."""
    hz = np.linspace(0, SAMPLE_RATE / 2, bins)
    mel = 2595 * np.log10(1 + hz / 700)
    centres = np.linspace(0, mel[-1], bands)
    return np.maximum(0, 1 - np.abs(mel - centres[:, None]) / centres[1])


def _frames(signal: Array, count: int) -> Array:
    """Hann-windowed frames (count, 512) every HOP samples; frame i is centred on sample (i - 1) HOP."""
    padded = np.zeros((count + 3) * HOP)
    padded[3 * HOP :][: len(signal)] = signal
    return np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP] * _hann()


def _analyse(voice: Array) -> tuple[Array, Array, Array]:
    """Power spectra (frames, 513) of unit-variance scale, smoothed F0 (frames,) in Hz, and voicing 0 or 1 (frames,)."""
    frames = len(voice) // HOP + 2
    power = np.abs(np.fft.rfft(_frames(voice, frames + 1)[1:], _FFT)) ** 2 / np.sum(_hann() ** 2)
    correlation = np.fft.irfft(power)[:, :240]
    window = np.fft.irfft(np.abs(np.fft.rfft(_hann(), _FFT)) ** 2)[:240]
    normal = correlation / (correlation[:, :1] + 1e-12) / (window / window[0])
    # A slight preference for short lags keeps the tracker from halving F0.
    lag = 45 + np.argmax(normal[:, 45:220] - 0.0006 * np.arange(175), axis=1)
    row = np.arange(frames)
    left, top, right = normal[row, lag - 1], normal[row, lag], normal[row, lag + 1]
    offset = (0.5 * (left - right) / (left - 2 * top + right - 1e-9)).clip(-0.5, 0.5)
    voiced = (top > 0.5) & (correlation[:, 0] > 1e-3 * correlation[:, 0].max())
    log_f0 = np.log(SAMPLE_RATE / (lag + offset))
    known = np.flatnonzero(voiced)
    contour = np.interp(row, known, log_f0[known]) if len(known) else np.full(frames, np.log(120.0))
    middle = np.median(
        np.lib.stride_tricks.sliding_window_view(np.pad(contour, 3, mode="edge"), 7), axis=1
    )
    return power, np.exp(smooth(middle, 9)), voiced.astype(float)


def _levinson(correlation: Array) -> tuple[Array, Array]:
    """Prediction error (frames,) and predictor (frames, order + 1) of autocorrelations (frames, order + 1)."""
    predictor = np.zeros_like(correlation)
    predictor[:, 0] = 1
    error = correlation[:, 0] + 1e-12
    for order in range(1, correlation.shape[1]):
        reflection = -np.sum(predictor[:, :order] * correlation[:, order:0:-1], axis=1) / error
        predictor[:, 1 : order + 1] += (
            reflection[:, None] * predictor[:, order - 1 :: -1][:, :order]
        )
        error = error * (1 - reflection**2)
    return error, predictor


def _hold(track: Array, samples: int) -> Array:
    return np.interp(np.arange(samples) / HOP, np.arange(len(track)), track)


def _noise(voice: Array, rng: np.random.Generator) -> Array:
    return rng.standard_normal(len(voice))


def _wave(f0_hz: Array, samples: int, dispersion: float) -> Array:
    """A perfectly regular wave of unit variance, (samples,): equal harmonics, each `dispersion` cycles after the last.

    Dispersed pulses sound less buzzy (LPC-10); they have lost the sharp closures of a glottis.
    """
    harmonics = np.arange(1.0, SAMPLE_RATE / 2 // np.median(f0_hz) + 1)
    size = 2048
    spectrum = np.zeros(size // 2 + 1, dtype=complex)
    spectrum[1 : len(harmonics) + 1] = np.exp(-1j * np.pi * dispersion * harmonics**2)
    table = np.fft.irfft(spectrum)
    phase = np.cumsum(_hold(f0_hz, samples)) / SAMPLE_RATE
    return (
        np.interp(phase % 1 * size, np.arange(size + 1), np.append(table, table[0])) / table.std()
    )


def _excite(voice: Array, *parts: tuple[NDArray[np.inexact], Array]) -> Array:
    """The sum of `parts`, sources (samples,) filtered by responses (frames, 513), brought level with `voice`."""
    frames = len(voice) // HOP + 2
    total = np.zeros((frames, _BINS), dtype=complex)
    for response, source in parts:
        total += response * np.fft.rfft(cut(source, frames), _FFT)
    return _alike(overlap_add(np.fft.irfft(total), HOP)[HOP : HOP + len(voice)], voice)


def _alike(spoof: Array, voice: Array) -> Array:
    """`spoof` with the long-term spectrum of `voice` in 24 mel bands."""
    size = -(-len(voice) // 2048) * 2048
    spectrum = np.fft.rfft(spoof, size)
    bands = _mel(24, 1025)[:, :1024]
    levels = []
    for power in (np.abs(spectrum) ** 2, np.abs(np.fft.rfft(voice, size)) ** 2):
        levels.append(bands @ power[:-1].reshape(1024, -1).mean(1) + 1e-9)
    gain = np.sqrt(levels[1] / levels[0]) @ (bands / bands.sum(0))
    return np.fft.irfft(
        spectrum * np.interp(np.arange(len(spectrum)), np.arange(1024) * (size // 2048), gain), size
    )[: len(voice)]
