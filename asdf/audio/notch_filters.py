"""RawBoost's filters: random banks of notches, and FIR filtering in the frequency domain.

Invariant: given the same draws, the coefficients and the filtered samples are those of the published code
(github.com/TakHemlata/RawBoost-antispoofing), which uses scipy's `firwin`, `freqz` and `lfilter`; here they take a
small fraction of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE
from asdf.settings.sections import RawBoost

# The grid of angular frequencies 2 pi k / 1024, k < 512, on which scipy's `freqz` finds the greatest gain.
_GRID = 1024
_MARGIN_HZ = 1e-3


@dataclass(frozen=True)
class Notches:
    """What was drawn for K filters, each a product of B notches.

    centres_hz, widths_hz: (K, B) float; taps: (K, B) int, odd; gains_db: (K,) float.
    """

    centres_hz: np.ndarray
    widths_hz: np.ndarray
    taps: np.ndarray
    gains_db: np.ndarray


def draw_notches(
    settings: RawBoost, lowest_db: np.ndarray, highest_db: np.ndarray, rng: np.random.Generator
) -> Notches:
    """Draw K filters, with gains between `lowest_db` and `highest_db` (K,).

    Order of the draws: for each filter, its notches' (centre, width, taps), then its gain.
    """
    uniform = rng.random((len(lowest_db), 3 * settings.nBands + 1))
    centre, width, taps = uniform[:, :-1].reshape(-1, settings.nBands, 3).transpose(2, 0, 1)
    return Notches(
        centres_hz=settings.minF + (settings.maxF - settings.minF) * centre,
        widths_hz=settings.minBW + (settings.maxBW - settings.minBW) * width,
        taps=(settings.minCoeff + (settings.maxCoeff - settings.minCoeff) * taps).astype(np.int64)
        | 1,
        gains_db=lowest_db + (highest_db - lowest_db) * uniform[:, -1],
    )


def design(notches: Notches) -> list[np.ndarray]:
    """The K filters' coefficients, (taps_k,) float64 each, of odd length; the greatest gain of each is its gains_db.

    Each notch is a Hamming-windowed band stop, scaled to gain 1 at 0 Hz.
    """
    highest = SAMPLE_RATE / 2 - _MARGIN_HZ
    upper = np.minimum(notches.centres_hz + notches.widths_hz / 2, highest)
    lower = np.clip(notches.centres_hz - notches.widths_hz / 2, _MARGIN_HZ, upper)
    left, right, taps = (
        a[..., None] for a in (2 * lower / SAMPLE_RATE, 2 * upper / SAMPLE_RATE, notches.taps)
    )
    n = np.arange(notches.taps.max())
    m = n - (taps - 1) // 2
    ideal = left * np.sinc(left * m) + (m == 0) - right * np.sinc(right * m)
    window = 0.54 - 0.46 * np.cos(2 * np.pi * n / np.maximum(taps - 1, 1))
    bands = np.where(n < taps, ideal * window, 0.0)
    bands /= bands.sum(axis=-1, keepdims=True)

    lengths = (notches.taps - 1).sum(axis=-1) + 1
    points = -(-int(lengths.max()) // _GRID) * _GRID
    response = np.fft.rfft(bands, points).prod(axis=1)
    greatest = np.abs(response[:, :: points // _GRID][:, : _GRID // 2]).max(axis=-1)
    filters = np.fft.irfft(response * (10 ** (notches.gains_db / 20) / greatest)[:, None], points)
    return [coefficients[:length] for coefficients, length in zip(filters, lengths, strict=True)]


def longest(taps: int) -> int:
    """How long filters of up to `taps` are made: a delay taken to be a sample too much reaches past a single tap."""
    return max(3, taps)


def align(filters: Sequence[np.ndarray], taps: int) -> np.ndarray:
    """The K filters with zeros on both sides, so that all have the same delay: (K, taps) float32; lengths are odd."""
    aligned = np.zeros((len(filters), taps), np.float32)
    for row, coefficients in zip(aligned, filters, strict=True):
        shift = (taps - len(coefficients)) // 2
        row[shift : shift + len(coefficients)] = coefficients
    return aligned


def overlap_save(samples: int, taps: int) -> tuple[int, int, int, int]:
    """How to cut a waveform of `samples` into blocks, each to be transformed: (points, hop, before, after).

    A block has `points`, the next one begins `hop` further on, and zeros go before and after the waveform. Blocks of
    about 4 filter lengths cost the same a sample for any number of samples.
    """
    points = max(_GRID, 1 << (4 * taps - 1).bit_length())
    hop, before = points - taps + 1, taps - 1 - (taps + 1) // 2
    return points, hop, before, -samples % hop + taps - 1 - before


def filter_powers(waveform: np.ndarray, filters: list[np.ndarray]) -> np.ndarray:
    """`waveform` (T,) float32, its square, its cube ..., each through its own of the K filters, and summed: (T,).

    The filters' lengths are odd. Their delay is taken out; as in the published code it is taken to be one sample more
    than it is, so the output runs one sample ahead.
    """
    taps = longest(max(map(len, filters)))
    aligned = align(filters, taps)
    points, hop, before, after = overlap_save(len(waveform), taps)
    padded = np.pad(np.asarray(waveform, np.float32), (before, after))
    windows = np.lib.stride_tricks.sliding_window_view(padded, points)[::hop]
    responses = np.fft.rfft(aligned, points)
    first = power = np.ascontiguousarray(windows)
    spectrum = np.fft.rfft(power) * responses[0]
    for response in responses[1:]:
        power = power * first
        spectrum += np.fft.rfft(power) * response
    output = np.fft.irfft(spectrum, points)[:, taps - 1 :]
    return output.reshape(-1)[: len(waveform)]
