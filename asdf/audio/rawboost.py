"""RawBoost: noise on raw waveforms like that of telephony and recording, for training examples.

Hemlata Tak, Madhu Kamble, Jose Patino, Massimiliano Todisco, Nicholas Evans: RawBoost: a raw data
boosting and augmentation method applied to automatic speaker verification anti-spoofing. ICASSP
2022.

Invariant: random values are drawn first (`draw`), from one generator, and depend only on the length
of the waveform; the processing (`boost`) is then deterministic. An example is the same on every
machine and, for the same draws, equals that of the published code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.linalg import norm
from numpy.random import Generator

from asdf.audio.draws import draw_between
from asdf.audio.notch_filters import Notches, design, draw_notches, filter_powers
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import RawBoost

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
    lnl = None
    isd = None
    ssi = None
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
