"""Synthesis in vocoders: sources, filters, and matching the spectrum at the end.

Invariant: a copy differs from its voice only in structure. Long-term spectrum and level, which
would reveal it to a level meter, are restored by `match_spectrum`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator
from numpy.typing import NDArray

from asdf.audio.vocoding.analysis import BINS, FFT, mel_filters
from asdf.audio.vocoding.frames import HOP, Array, cut, overlap_add, round_up
from asdf.facts import SAMPLE_RATE

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
