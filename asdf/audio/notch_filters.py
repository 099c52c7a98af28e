"""RawBoost's filters: random banks of notches, and FIR filtering in the frequency domain.

Invariant: given the same draws, the coefficients and the filtered samples are those of the published code
(github.com/TakHemlata/RawBoost-antispoofing), which uses scipy's `firwin`, `freqz` and `lfilter`; here they take a
small fraction of the time.
"""

from __future__ import annotations

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
        taps=(settings.minCoeff + (settings.maxCoeff - settings.minCoeff) * taps).astype(np.int64) | 1,
        gains_db=lowest_db + (highest_db - lowest_db) * uniform[:, -1],
    )


def design(notches: Notches) -> list[np.ndarray]:
    """The K filters' coefficients, (taps_k,) float64 each, of odd length; the greatest gain of each is its gains_db.

    Each notch is a Hamming-windowed band stop, scaled to gain 1 at 0 Hz.
    """
    highest = SAMPLE_RATE / 2 - _MARGIN_HZ
    upper = np.minimum(notches.centres_hz + notches.widths_hz / 2, highest)
    lower = np.clip(notches.centres_hz - notches.widths_hz / 2, _MARGIN_HZ, upper)
    left, right, taps = (a[..., None] for a in (2 * lower / SAMPLE_RATE, 2 * upper / SAMPLE_RATE, notches.taps))
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


def filter_sum(signals: np.ndarray, filters: list[np.ndarray]) -> np.ndarray:
    """The sum of `signals` (K, T) float32, each through its own filter of odd length: (T,).

    The filters' delay is taken out. As in the published code it is taken to be one sample more than it is, so the
    output runs one sample ahead.
    """
    length = signals.shape[1]
    advance = (max(map(len, filters)) + 1) // 2
    taps = 2 * advance - 1
    aligned = np.zeros((len(filters), taps), np.float32)
    for row, coefficients in zip(aligned, filters, strict=True):
        shift = advance - (len(coefficients) + 1) // 2
        row[shift : shift + len(coefficients)] = coefficients

    # Overlap-save: blocks of about 8 filter lengths cost the same for any T, and fit the processor's cache.
    points = max(_GRID, 1 << (8 * taps - 1).bit_length())
    hop = points - taps + 1
    blocks = -(-(length + advance) // hop)
    padded = np.zeros((len(filters), blocks * hop + taps - 1), np.float32)
    padded[:, taps - 1 : taps - 1 + length] = signals
    windows = np.lib.stride_tricks.sliding_window_view(padded, points, axis=1)[:, ::hop]
    spectrum = np.einsum("kbf,kf->bf", np.fft.rfft(windows, axis=-1), np.fft.rfft(aligned, points))
    filtered = np.fft.irfft(spectrum, points)[:, taps - 1 :].reshape(-1)
    return filtered[advance : advance + length]
