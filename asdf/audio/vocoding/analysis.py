"""Spectrograms, and the analysis of a voice into envelope and F0, frame by frame.

Invariant: an analysis is deterministic and the same for all vocoders.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.fft import irfft, rfft
from numpy.typing import NDArray

from asdf.audio.vocoding.frames import HOP, Array, overlap_add, slide, smooth, squared_sine
from asdf.facts import SAMPLE_RATE

_WINDOW = 512
FFT = 1024
BINS = FFT // 2 + 1
# Lags of F0 between 73 and 355 Hz, in samples.
_FIRST_LAG = 45
_LAST_LAG = 220
_LAGS = 240
# Added to divisors that may be 0.
TINY = 1e-12


@dataclass(frozen=True)
class Analysis:
    """The analysis of a voice, frame by frame.

    Attributes:
        power: Power spectra of unit-variance scale, (frames, 513).
        f0_hz: Smoothed F0, (frames,), interpolated in unvoiced frames.
        voiced: Voicing, (frames,), 0 or 1.
    """

    power: Array
    f0_hz: Array
    voiced: Array


def analyse(voice: Array) -> Analysis:
    """Analyse a voice (samples,) at 16 kHz; F0 by autocorrelation (Boersma, 1993)."""
    frames = len(voice) // HOP + 2
    cut_voice = cut_for_vocoder(voice, frames + 1)[1:]
    spectra = rfft(cut_voice, FFT)
    energy_of_window = np.sum(_hann() ** 2)
    power = np.abs(spectra) ** 2 / energy_of_window
    correlation = irfft(power)[:, :_LAGS]
    energy = correlation[:, :1]
    # The window lowers the correlation at longer lags, which would favour a high F0.
    spectrum_of_window = rfft(_hann(), FFT)
    of_window = irfft(np.abs(spectrum_of_window) ** 2)[:_LAGS]
    normal_of_window = of_window / of_window[0]
    normal = correlation / (energy + TINY) / normal_of_window
    lag, top = _find_pitch_lags(normal)
    is_loud = correlation[:, 0] > 1e-3 * energy.max()
    voiced = (top > 0.5) & is_loud
    f0_hz = _smooth_f0(SAMPLE_RATE / lag, voiced)
    return Analysis(power, f0_hz, voiced.astype(float))


def _find_pitch_lags(normal: Array) -> tuple[Array, Array]:
    """Return the lag of the highest peak, and its height, (frames,) each.

    The lag is in fractional samples.

    Args:
        normal: Normalised autocorrelations, (frames, lags).
    """
    # A slight preference for short lags prevents octave errors of F0.
    preference = 0.0006 * np.arange(_LAST_LAG - _FIRST_LAG)
    preferred = normal[:, _FIRST_LAG:_LAST_LAG] - preference
    lag = _FIRST_LAG + np.argmax(preferred, axis=1)
    row = np.arange(len(normal))
    left = normal[row, lag - 1]
    top = normal[row, lag]
    right = normal[row, lag + 1]
    # The vertex of the parabola through the three points.
    curvature = left - 2 * top + right - 1e-9
    offset = 0.5 * (left - right) / curvature
    return lag + offset.clip(-0.5, 0.5), top


def _smooth_f0(f0_hz: Array, voiced: NDArray[np.bool_]) -> Array:
    """Return F0 in Hz, interpolated over unvoiced frames, smoothed by median and average."""
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


def predict_linearly(correlation: Array) -> tuple[Array, Array]:
    """Solve for linear predictors by the Levinson-Durbin recursion.

    Args:
        correlation: Autocorrelations, (frames, order + 1).

    Returns:
        Prediction error (frames,) and predictor (frames, order + 1).
    """
    predictor = np.zeros_like(correlation)
    predictor[:, 0] = 1
    error = correlation[:, 0] + TINY
    for order in range(1, correlation.shape[1]):
        reversed_correlation = correlation[:, order:0:-1]
        products = predictor[:, :order] * reversed_correlation
        reflection = -np.sum(products, axis=1) / error
        reversed_predictor = predictor[:, order - 1 :: -1][:, :order]
        correction = reflection[:, None] * reversed_predictor
        predictor[:, 1 : order + 1] += correction
        error = error * (1 - reflection**2)
    return error, predictor


def cut_for_vocoder(signal: Array, count: int) -> Array:
    """Return Hann-windowed frames (count, 512); frame i is centred on sample (i - 1) HOP."""
    padded = np.zeros((count + 3) * HOP)
    padded[3 * HOP :][: len(signal)] = signal
    return slide(padded, _WINDOW)[::HOP] * _hann()


def invert(spectrum: NDArray[np.complex128], samples: int) -> Array:
    """Return the waveform of a spectrogram of `cut_for_vocoder`, (samples,)."""
    frames = irfft(spectrum) * _hann()
    wave = overlap_add(frames, HOP)
    # The squares of windows that overlap four times sum to 1.5.
    return wave[3 * HOP :][:samples] / 1.5


@cache
def _hann() -> Array:
    return squared_sine(_WINDOW)


@cache
def mel_filters(bands: int, bins: int) -> Array:
    """Return triangular filters evenly spaced in mel, (bands, bins)."""
    hz = np.linspace(0, SAMPLE_RATE / 2, bins)
    mel = 2595 * np.log10(1 + hz / 700)
    centres = np.linspace(0, mel[-1], bands)
    distance = np.abs(mel - centres[:, None])
    width = centres[1]
    filters: Array = np.maximum(0, 1 - distance / width)
    return filters
