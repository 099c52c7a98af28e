"""RawBoost: noise on raw waveforms like that of telephony and recording, for training examples.

Hemlata Tak, Madhu Kamble, Jose Patino, Massimiliano Todisco, Nicholas Evans: RawBoost: a raw data
boosting and augmentation method applied to automatic speaker verification anti-spoofing. ICASSP
2022.

Invariant: random values are drawn first (`draw`), from one generator, and depend only on the length
of the waveform; the processing (`boost`) is then deterministic. An example is the same on every
machine and, for the same draws, equals that of the published code
(github.com/TakHemlata/RawBoost-antispoofing), which uses scipy's `firwin`, `freqz` and `lfilter`:
here, banks of notches are filtered in the frequency domain, in a small fraction of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft
from numpy.lib.stride_tricks import sliding_window_view
from numpy.linalg import norm
from numpy.random import Generator

from asdf.audio.augmentation.part import draw_between, scale
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
    return Notches(
        centres_hz=np.concatenate([notches.centres_hz for notches in draws]),
        widths_hz=np.concatenate([notches.widths_hz for notches in draws]),
        taps=np.concatenate([notches.taps for notches in draws]),
        gains_db=np.concatenate([notches.gains_db for notches in draws]),
        rate=draws[0].rate,
    )


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
    return [row[:length] for row, length in zip(padded_filters, lengths, strict=True)]


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


# Values of `rawboost.algo` with linear and non-linear convolutive noise (LnL), impulsive
# signal-dependent noise (ISD) and stationary signal-independent noise (SSI).
_WITH_LNL = {1, 4, 5, 6, 8}
_WITH_ISD = {2, 4, 5, 7, 8}
_WITH_SSI = {3, 4, 6, 7}
PARALLEL = 8
"""Value of `rawboost.algo` that adds LnL and ISD, each computed from the waveform itself."""


@dataclass(frozen=True)
class Impulses:
    """ISD: indices of the disturbed samples, (n,) int, distinct, and factors, (n,) in (-1, 1)."""

    positions: np.ndarray
    factors: np.ndarray


@dataclass(frozen=True)
class Stationary:
    """SSI: white noise (T,), the filter that colours it (K = 1), and the signal-to-noise ratio."""

    white: np.ndarray
    notches: Notches
    snr_db: float


@dataclass(frozen=True)
class Draws:
    """The draws for a waveform; None for a noise that `algo` leaves out."""

    lnl: Notches | None
    isd: Impulses | None
    ssi: Stationary | None


def draw_for_some(
    length: int, settings: RawBoost, rng: Generator, rate: int = SAMPLE_RATE
) -> Draws | None:
    """Draw the noises of a training example of `length` samples, in `applyingRatio` of the calls.

    The result is None if the example stays unchanged; then nothing more was drawn, and nothing at
    all if RawBoost is not enabled or `algo` is 0.
    """
    if not settings.enabled or settings.algo == 0:
        return None
    if rng.random() >= settings.applyingRatio:
        return None
    return draw(length, settings, rng, rate)


def draw(length: int, settings: RawBoost, rng: Generator, rate: int = SAMPLE_RATE) -> Draws:
    """Draw all random values for a waveform of `length` samples, in the order LnL, ISD, SSI.

    Args:
        rate: Sampling rate of the waveform, in Hz.
    """
    lnl = isd = ssi = None
    if settings.algo in _WITH_LNL:
        # As published: the gap is applied once, so all orders above the first have the same gains.
        gap = np.arange(settings.N_f) > 0
        lowest_db = settings.minG - settings.minBiasLinNonLin * gap
        highest_db = settings.maxG - settings.maxBiasLinNonLin * gap
        lnl = draw_notches(settings, lowest_db, highest_db, rng, rate)
    if settings.algo in _WITH_ISD:
        proportion = settings.P * rng.random() / 100
        count = int(length * proportion)
        positions = rng.choice(length, count, replace=False, shuffle=False)
        # As published: the product of two numbers between -1 and 1.
        first, second = 2 * rng.random((2, count)) - 1
        isd = Impulses(positions, first * second)
    if settings.algo in _WITH_SSI:
        white = rng.standard_normal(length, np.float32)
        lowest_db = np.array([settings.minG])
        highest_db = np.array([settings.maxG])
        notches = draw_notches(settings, lowest_db, highest_db, rng, rate)
        snr_db = draw_between(settings.SNRmin, settings.SNRmax, rng)
        ssi = Stationary(white, notches, snr_db)
    return Draws(lnl, isd, ssi)


def boost(waveform: np.ndarray, draws: Draws, settings: RawBoost) -> np.ndarray:
    """Return `waveform` (T,) float32 with the drawn noises: summed for algo 8, else in sequence."""
    if settings.algo == PARALLEL:
        assert draws.lnl is not None and draws.isd is not None
        convolved = _add_lnl(waveform, draws.lnl)
        disturbed = _add_isd(waveform, draws.isd, settings.g_sd)
        return _limit_peak(convolved + disturbed)
    if draws.lnl is not None:
        waveform = _add_lnl(waveform, draws.lnl)
    if draws.isd is not None:
        waveform = _add_isd(waveform, draws.isd, settings.g_sd)
    if draws.ssi is not None:
        waveform = _add_ssi(waveform, draws.ssi)
    return waveform


def _add_lnl(waveform: np.ndarray, notches: Notches) -> np.ndarray:
    """Add linear and non-linear convolutive noise: x, x^2, x^3 ..., each filtered, summed."""
    output = filter_powers(waveform, design(notches))
    output -= float(output.mean(dtype=np.float64))
    return _limit_peak(output)


def _add_isd(waveform: np.ndarray, impulses: Impulses, gain: float) -> np.ndarray:
    """Add impulsive, signal-dependent noise."""
    output = waveform.copy()
    changes = 1 + gain * impulses.factors
    output[impulses.positions] *= changes
    return _limit_peak(output)


def _add_ssi(waveform: np.ndarray, stationary: Stationary) -> np.ndarray:
    """Add stationary, signal-independent noise: coloured, at the drawn signal-to-noise ratio."""
    noise = filter_powers(stationary.white, design(stationary.notches))
    noise_norm = norm(noise)
    if noise_norm == 0:
        return waveform
    ratio = 10 ** (stationary.snr_db / 20)
    level = norm(waveform) / noise_norm / ratio
    noisy: np.ndarray = waveform + level * noise
    return noisy.astype(np.float32)


def _limit_peak(waveform: np.ndarray) -> np.ndarray:
    """Scale a waveform with a peak above 1 to a peak of 1."""
    highest = float(waveform.max())
    lowest = float(waveform.min())
    peak = max(highest, -lowest)
    if peak > 1:
        waveform = waveform / peak
    return waveform.astype(np.float32, copy=False)
