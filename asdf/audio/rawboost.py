"""RawBoost: noise on raw waveforms as telephony and recording add it, for training examples.

Hemlata Tak, Madhu Kamble, Jose Patino, Massimiliano Todisco, Nicholas Evans: RawBoost: a raw data boosting and
augmentation method applied to automatic speaker verification anti-spoofing. ICASSP 2022.

Invariant: what is random is drawn first (`draw`), from one generator, and depends on the waveform's length only;
what is then done to the waveform (`boost`) is fixed. So an example is the same on every machine, and given the same
draws it is that of the published code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.audio.notch_filters import Notches, design, draw_notches, filter_powers
from asdf.settings.sections import RawBoost

_WITH_LNL = {1, 4, 5, 6, 8}
_WITH_ISD = {2, 4, 5, 7, 8}
_WITH_SSI = {3, 4, 6, 7}


@dataclass(frozen=True)
class Impulses:
    """ISD: the samples disturbed, (n,) int without repetition, and by how much of themselves, (n,) in (-1, 1)."""

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
    """What was drawn for one waveform; None for a noise that `algo` leaves out."""

    lnl: Notches | None
    isd: Impulses | None
    ssi: Stationary | None


def augment(waveform: np.ndarray, settings: RawBoost, rng: np.random.Generator) -> np.ndarray:
    """`waveform` (T,), T >= 1, with what `draw_for_some` drew for it: (T,) float32."""
    waveform = np.asarray(waveform, np.float32)
    draws = draw_for_some(len(waveform), settings, rng)
    return waveform if draws is None else boost(waveform, draws, settings)


def draw_for_some(length: int, settings: RawBoost, rng: np.random.Generator) -> Draws | None:
    """What is done to a training example of `length` samples: `settings.algo`'s noise, in `applyingRatio` of the calls.

    None where it stays as it is; then nothing more was drawn, and nothing at all when RawBoost is not enabled or
    `algo` is 0.
    """
    if not settings.enabled or settings.algo == 0 or rng.random() >= settings.applyingRatio:
        return None
    return draw(length, settings, rng)


def draw(length: int, settings: RawBoost, rng: np.random.Generator) -> Draws:
    """Everything random about one waveform of `length` samples, in the order LnL, ISD, SSI."""
    return Draws(
        lnl=_draw_lnl(settings, rng) if settings.algo in _WITH_LNL else None,
        isd=_draw_isd(length, settings, rng) if settings.algo in _WITH_ISD else None,
        ssi=_draw_ssi(length, settings, rng) if settings.algo in _WITH_SSI else None,
    )


def boost(waveform: np.ndarray, draws: Draws, settings: RawBoost) -> np.ndarray:
    """`waveform` (T,) float32 with the drawn noises: in parallel for algo 8, one after the other for the rest."""
    if settings.algo == 8:
        assert draws.lnl is not None and draws.isd is not None
        return _limited(_lnl(waveform, draws.lnl) + _isd(waveform, draws.isd, settings.g_sd))
    if draws.lnl is not None:
        waveform = _lnl(waveform, draws.lnl)
    if draws.isd is not None:
        waveform = _isd(waveform, draws.isd, settings.g_sd)
    if draws.ssi is not None:
        waveform = _ssi(waveform, draws.ssi)
    return waveform


def _draw_lnl(settings: RawBoost, rng: np.random.Generator) -> Notches:
    # As published: the gap is taken once, so all orders above the first have the same range of gains.
    gap = np.arange(settings.N_f) > 0
    lowest = settings.minG - settings.minBiasLinNonLin * gap
    highest = settings.maxG - settings.maxBiasLinNonLin * gap
    return draw_notches(settings, lowest, highest, rng)


def _draw_isd(length: int, settings: RawBoost, rng: np.random.Generator) -> Impulses:
    count = int(length * (settings.P * rng.random() / 100))
    positions = rng.choice(length, count, replace=False, shuffle=False)
    first, second = 2 * rng.random((2, count)) - 1
    return Impulses(positions, first * second)


def _draw_ssi(length: int, settings: RawBoost, rng: np.random.Generator) -> Stationary:
    white = rng.standard_normal(length, np.float32)
    notches = draw_notches(settings, np.array([settings.minG]), np.array([settings.maxG]), rng)
    return Stationary(
        white, notches, settings.SNRmin + (settings.SNRmax - settings.SNRmin) * rng.random()
    )


def _lnl(waveform: np.ndarray, notches: Notches) -> np.ndarray:
    """Linear and non-linear convolutive noise: x, x^2, x^3 ..., each through its own filter, summed."""
    output = filter_powers(waveform, design(notches))
    output -= float(output.mean(dtype=np.float64))
    return _limited(output)


def _isd(waveform: np.ndarray, impulses: Impulses, gain: float) -> np.ndarray:
    """Impulsive, signal-dependent additive noise."""
    output = waveform.copy()
    output[impulses.positions] *= 1 + gain * impulses.factors
    return _limited(output)


def _ssi(waveform: np.ndarray, stationary: Stationary) -> np.ndarray:
    """Stationary, signal-independent additive noise: coloured, at the drawn signal-to-noise ratio."""
    noise = filter_powers(stationary.white, design(stationary.notches))
    noise_norm = np.linalg.norm(noise)
    if noise_norm == 0:
        return waveform
    level = np.linalg.norm(waveform) / noise_norm / 10 ** (stationary.snr_db / 20)
    return (waveform + level * noise).astype(np.float32)


def _limited(waveform: np.ndarray) -> np.ndarray:
    """Scaled to a peak of 1 where the peak is higher."""
    peak = max(float(waveform.max()), -float(waveform.min()))
    return (waveform / peak if peak > 1 else waveform).astype(np.float32, copy=False)
