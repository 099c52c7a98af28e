"""RawBoost's filters: random banks of notches, and FIR filtering in the frequency domain.

Invariant: given the same draws, coefficients and filtered samples equal those of the published code
(github.com/TakHemlata/RawBoost-antispoofing), which uses scipy's `firwin`, `freqz` and `lfilter`,
in a small fraction of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.fft import irfft, rfft
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator

from asdf.audio.draws import scale
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import RawBoost

# The grid of angular frequencies 2 pi k / 1024, k < 512, on which scipy's `freqz` finds the highest
# gain.
_GRID = 1024
# Band edges must lie between 0 Hz and the Nyquist frequency.
_MARGIN_HZ = 1e-3


@dataclass(frozen=True)
class Notches:
    """The drawn parameters of K filters, each a product of B notches.

    The arrays are centres_hz, widths_hz: (K, B) float; taps: (K, B) int, odd; gains_db: (K,) float.
    `rate` is the sampling rate of the filtered signal, in Hz.
    """

    centres_hz: np.ndarray
    widths_hz: np.ndarray
    taps: np.ndarray
    gains_db: np.ndarray
    rate: int = SAMPLE_RATE


def join_notches(draws: Sequence[Notches]) -> Notches:
    """Return the filters of several draws, concatenated."""
    joined = {}
    for field in fields(Notches):
        if field.name != "rate":
            arrays = [getattr(notches, field.name) for notches in draws]
            joined[field.name] = np.concatenate(arrays)
    return Notches(**joined, rate=draws[0].rate)


@dataclass(frozen=True)
class BlockPlan:
    """The blocks into which overlap-save filtering divides a waveform.

    Attributes:
        points: Number of samples of a block.
        hop: Number of samples from the start of a block to that of the next.
        before, after: Numbers of zeros added before and after the waveform.
    """

    points: int
    hop: int
    before: int
    after: int


def draw_notches(
    settings: RawBoost,
    lowest_db: np.ndarray,
    highest_db: np.ndarray,
    rng: Generator,
    rate: int = SAMPLE_RATE,
) -> Notches:
    """Draw K filters, with gains between `lowest_db` and `highest_db` (K,).

    Order of the draws: for each filter, its notches' (centre, width, taps), then its gain.
    """
    filters = len(lowest_db)
    numbers_per_filter = 3 * settings.nBands + 1
    uniform = rng.random((filters, numbers_per_filter))
    of_notches = uniform[:, :-1].reshape(filters, settings.nBands, 3)
    # (3, K, B): all centres, all widths, all numbers of taps.
    centre, width, taps = np.moveaxis(of_notches, -1, 0)
    taps = scale(taps, settings.minCoeff, settings.maxCoeff)
    return Notches(
        centres_hz=scale(centre, settings.minF, settings.maxF),
        widths_hz=scale(width, settings.minBW, settings.maxBW),
        taps=taps.astype(np.int64) | 1,
        gains_db=scale(uniform[:, -1], lowest_db, highest_db),
        rate=rate,
    )


def design(notches: Notches) -> list[np.ndarray]:
    """Return the coefficients of the K filters, (taps_k,) float64 each, of odd length.

    Each notch is a Hamming-windowed band stop, scaled to gain 1 at 0 Hz; the highest gain of each
    filter is its gains_db.
    """
    bands = _design_band_stops(notches)
    lengths = (notches.taps - 1).sum(axis=-1) + 1
    # A multiple of the grid, so that the grid's frequencies are among those of the transform.
    grids = -(-int(lengths.max()) // _GRID)
    points = grids * _GRID
    response = rfft(bands, points).prod(axis=1)
    on_grid = response[:, ::grids]
    below_nyquist = on_grid[:, : _GRID // 2]
    highest_gain = np.abs(below_nyquist).max(axis=-1)
    wanted_gain = 10 ** (notches.gains_db / 20)
    gain = wanted_gain / highest_gain
    padded_filters = irfft(response * gain[:, None], points)
    filters = []
    for coefficients, length in zip(padded_filters, lengths, strict=True):
        filters.append(coefficients[:length])
    return filters


def _design_band_stops(notches: Notches) -> np.ndarray:
    """Return the coefficients of each notch, (K, B, maximum taps) float64."""
    rate = notches.rate
    highest_hz = rate / 2 - _MARGIN_HZ
    upper_hz = notches.centres_hz + notches.widths_hz / 2
    upper_hz = np.minimum(upper_hz, highest_hz)
    lower_hz = notches.centres_hz - notches.widths_hz / 2
    lower_hz = np.clip(lower_hz, _MARGIN_HZ, upper_hz)
    # In units of the Nyquist frequency, as in scipy's `firwin`.
    left = (2 * lower_hz / rate)[..., None]
    right = (2 * upper_hz / rate)[..., None]
    taps = notches.taps[..., None]
    n = np.arange(notches.taps.max())
    m = n - (taps - 1) // 2
    # All frequencies pass except those from `left` to `right`.
    low_pass = left * np.sinc(left * m)
    stopped = right * np.sinc(right * m)
    ideal = low_pass + (m == 0) - stopped
    # With a single tap, the window is 0.08, which the scaling compensates.
    period = np.maximum(taps - 1, 1)
    phase = 2 * np.pi * n / period
    hamming = 0.54 - 0.46 * np.cos(phase)
    bands = np.where(n < taps, ideal * hamming, 0.0)
    bands /= bands.sum(axis=-1, keepdims=True)
    return bands


def filter_length(taps: int) -> int:
    """Return the filter length used for up to `taps` taps.

    The minimum is 3: the published code overestimates the delay by one sample, which would exceed a
    filter with 1 tap.
    """
    return max(3, taps)


def align(filters: Sequence[np.ndarray], taps: int) -> np.ndarray:
    """Return the K filters, of odd lengths, padded with zeros on both sides: (K, taps) float32.

    All of them then have the same delay.
    """
    aligned = np.zeros((len(filters), taps), np.float32)
    for row, coefficients in zip(aligned, filters, strict=True):
        length = len(coefficients)
        start = (taps - length) // 2
        row[start : start + length] = coefficients
    return aligned


def plan_blocks(samples: int, taps: int) -> BlockPlan:
    """Return the blocks of a waveform of `samples` for `align`ed filters of `taps`.

    Their delay is removed; as in the published code, it is overestimated by one sample.
    """
    # Blocks of about 4 filter lengths have a constant cost per sample.
    points = max(_GRID, 1 << (4 * taps - 1).bit_length())
    hop = points - taps + 1
    before = taps - 1 - (taps + 1) // 2
    up_to_whole_hops = -samples % hop
    overlap = taps - 1
    after = up_to_whole_hops + overlap - before
    return BlockPlan(points, hop, before, after)


def filter_powers(waveform: np.ndarray, filters: list[np.ndarray]) -> np.ndarray:
    """Filter `waveform` (T,) float32, its square, its cube ... by the K filters; return the sum.

    The filters' lengths are odd. Their delay is removed; as in the published code, it is
    overestimated by one sample, so the output is one sample early.
    """
    taps = filter_length(max(map(len, filters)))
    aligned = align(filters, taps)
    plan = plan_blocks(len(waveform), taps)
    waveform = np.asarray(waveform, np.float32)
    padded = np.pad(waveform, (plan.before, plan.after))
    windows = sliding_window_view(padded, plan.points)
    first = np.ascontiguousarray(windows[:: plan.hop])
    responses = rfft(aligned, plan.points)
    power = first
    spectrum = rfft(power) * responses[0]
    for response in responses[1:]:
        power = power * first
        spectrum += rfft(power) * response
    # The first samples of a block wrapped around.
    blocks = irfft(spectrum, plan.points)
    output = blocks[:, taps - 1 :].reshape(-1)
    return output[: len(waveform)]
