"""Frames and spectra of a voice, its envelope and F0, and the way back to a waveform.

Invariant: an analysis is deterministic and the same for all vocoders. No Python loop runs over
samples; a filter that changes over time is applied by FFT in windowed frames that sum to the
signal. A copy differs from its voice only in structure: long-term spectrum and level, which would
reveal it to a level meter, are restored by `match_spectrum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator
from numpy.typing import NDArray

from asdf.facts import SAMPLE_RATE

Array = NDArray[np.float64]

HOP = 128
"""Number of samples between frames."""


def smooth(track: Array, width: int) -> Array:
    """Average `track` (time, ...) along time by a Hann window of about `width` points.

    The first and last values are repeated beyond the ends.
    """
    # Without the ends of the window, which are 0.
    window = np.hanning(width + 2)[1:-1]
    weights = window / window.sum()
    before = width // 2
    after = width - 1 - before
    start = np.repeat(track[:1], before, 0)
    end = np.repeat(track[-1:], after, 0)
    padded = np.concatenate([start, track, end])
    columns = padded.reshape(len(padded), -1).T
    averaged = [np.convolve(column, weights, mode="valid") for column in columns]
    return np.stack(averaged, axis=1).reshape(track.shape)


def squared_sine(points: int) -> Array:
    """Return a window (points,) whose half-overlapping copies sum to 1."""
    half_steps = np.arange(points) + 0.5
    return np.sin(np.pi * half_steps / points) ** 2


def cut(signal: Array, frames: int) -> Array:
    """Cut `signal` into Hann-windowed frames of 2 HOP samples, (frames, 2 HOP).

    They overlap by half, so that their windows sum to 1.
    """
    length = 2 * HOP
    padded = np.zeros((frames + 1) * HOP)
    padded[HOP : HOP + len(signal)] = signal
    frames_without_window = slide(padded, length)[::HOP]
    return frames_without_window * squared_sine(length)


def slide(signal: Array, length: int) -> Array:
    """Return all windows of `length` of a signal (samples,), each one sample later."""
    return np.lib.stride_tricks.sliding_window_view(signal, length)


def overlap_add(frames: Array, hop: int) -> Array:
    """Sum frames (count, length), a multiple of `hop` long, that start `hop` samples apart."""
    count, length = frames.shape
    parts = length // hop
    total = np.zeros((count + parts - 1, hop))
    for part in range(parts):
        start = part * hop
        of_frames = frames[:, start : start + hop]
        total[part : part + count] += of_frames
    return total.reshape(-1)


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is at least `number`."""
    return -(-number // multiple) * multiple


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
    # The highest peak; a slight preference for short lags prevents octave errors of F0.
    preference = 0.0006 * np.arange(_LAST_LAG - _FIRST_LAG)
    best = _FIRST_LAG + np.argmax(normal[:, _FIRST_LAG:_LAST_LAG] - preference, axis=1)
    left, top, right = (normal[np.arange(len(normal)), best + step] for step in (-1, 0, 1))
    # The vertex of the parabola through the three points.
    offset = 0.5 * (left - right) / (left - 2 * top + right - 1e-9)
    lag = best + offset.clip(-0.5, 0.5)
    is_loud = correlation[:, 0] > 1e-3 * energy.max()
    voiced = (top > 0.5) & is_loud
    f0_hz = _smooth_f0(SAMPLE_RATE / lag, voiced)
    return Analysis(power, f0_hz, voiced.astype(float))


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


_WAVE_POINTS = 2048
# Number of bands in which a copy gets the spectrum of its voice, and their frequencies.
_MATCHED_BANDS = 24
_MATCHED_BINS = 1024


@dataclass(frozen=True)
class Excitation:
    """A source (samples,), and the filter for each of its frames: (frames, 513)."""

    response: NDArray[np.inexact]
    source: Array


def regular_wave(f0_hz: Array, samples: int, dispersion: float) -> Array:
    """Return a perfectly regular wave of unit variance, (samples,), of equal harmonics.

    The phase of each harmonic is `dispersion` cycles after that of the previous one. Dispersed
    pulses sound less buzzy (LPC-10), without the sharp closures of a glottis.
    """
    below_nyquist = SAMPLE_RATE / 2 // np.median(f0_hz)
    harmonics = np.arange(1.0, below_nyquist + 1)
    spectrum = np.zeros(_WAVE_POINTS // 2 + 1, dtype=complex)
    phases = -1j * np.pi * dispersion * harmonics**2
    spectrum[1 : len(harmonics) + 1] = np.exp(phases)
    cycle = irfft(spectrum)
    cycles = np.cumsum(per_sample(f0_hz, samples)) / SAMPLE_RATE
    point = cycles % 1 * _WAVE_POINTS
    # The point after the last is the first of the next cycle.
    closed = np.append(cycle, cycle[0])
    wave = np.interp(point, np.arange(_WAVE_POINTS + 1), closed)
    normalized: Array = wave / cycle.std()
    return normalized


def per_sample(track: Array, samples: int) -> Array:
    """Interpolate a track of frames: (samples,)."""
    frame_of_sample = np.arange(samples) / HOP
    return np.interp(frame_of_sample, np.arange(len(track)), track)


def draw_noise(voice: Array, rng: Generator) -> Array:
    """Draw white noise of unit variance, as long as `voice`."""
    return rng.standard_normal(len(voice))


def excite(voice: Array, *parts: Excitation) -> Array:
    """Filter sources by responses and sum them, with the spectrum and level of `voice`."""
    frames = len(voice) // HOP + 2
    total = np.zeros((frames, BINS), dtype=complex)
    for part in parts:
        spectrum = rfft(cut(part.source, frames), FFT)
        total += part.response * spectrum
    wave = overlap_add(irfft(total), HOP)
    return match_spectrum(wave[HOP : HOP + len(voice)], voice)


def match_spectrum(copy: Array, voice: Array) -> Array:
    """Give `copy` the long-term spectrum of `voice` in 24 mel bands."""
    size = round_up(len(voice), 2 * _MATCHED_BINS)
    bands = mel_filters(_MATCHED_BANDS, _MATCHED_BINS + 1)[:, :_MATCHED_BINS]
    spectrum = rfft(copy, size)
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
