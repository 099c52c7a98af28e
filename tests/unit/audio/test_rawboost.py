"""RawBoost against an implementation with scipy.

It states what the published code computes, draw by draw.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import firwin, freqz, lfilter

from asdf.audio.rawboost import Draws, boost, design, draw, draw_for_some
from asdf.settings.sections import RawBoost

ALWAYS = RawBoost(enabled=True, applyingRatio=1.0)


def noise(length: int, seed: int = 0) -> np.ndarray:
    return (0.3 * np.random.default_rng(seed).standard_normal(length)).astype(np.float32)


def augmented(waveform: np.ndarray, settings: RawBoost, rng: np.random.Generator) -> np.ndarray:
    """What a training example becomes of `waveform` (T,)."""
    draws = draw_for_some(len(waveform), settings, rng)
    return waveform if draws is None else boost(waveform, draws, settings)


def reference_filter(notches, k: int) -> np.ndarray:
    b = np.ones(1)
    for centre, width, taps in zip(
        notches.centres_hz[k], notches.widths_hz[k], notches.taps[k], strict=True
    ):
        low, high = centre - width / 2, centre + width / 2
        low = 1 / 1000 if low <= 0 else low
        high = 8000 - 1 / 1000 if high >= 8000 else high
        b = np.convolve(firwin(int(taps), [low, high], window="hamming", fs=16000), b)
    return 10 ** (notches.gains_db[k] / 20) * b / np.abs(freqz(b, 1, fs=16000)[1]).max()


def reference_fir(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    n = len(b) + 1
    y = lfilter(b, 1, np.pad(x, (0, n)))
    return y[int(n / 2) : int(len(y) - n / 2)]


def peak_at_most_1(x: np.ndarray) -> np.ndarray:
    return x / np.abs(x).max() if np.abs(x).max() > 1 else x


def reference_lnl(x: np.ndarray, draws: Draws) -> np.ndarray:
    orders = len(draws.lnl.gains_db)
    y = sum(reference_fir(x ** (i + 1), reference_filter(draws.lnl, i)) for i in range(orders))
    return peak_at_most_1(y - y.mean())


def reference_isd(x: np.ndarray, draws: Draws, gain: float) -> np.ndarray:
    y = x.copy()
    p = draws.isd.positions
    y[p] = x[p] + gain * x[p] * draws.isd.factors
    return peak_at_most_1(y)


def reference_ssi(x: np.ndarray, draws: Draws) -> np.ndarray:
    coloured = reference_fir(
        draws.ssi.white.astype(np.float64), reference_filter(draws.ssi.notches, 0)
    )
    coloured = coloured / np.abs(coloured).max()
    scale = np.linalg.norm(x) / np.linalg.norm(coloured) / 10 ** (0.05 * draws.ssi.snr_db)
    return x + scale * coloured


def reference(x: np.ndarray, draws: Draws, settings: RawBoost) -> np.ndarray:
    x = x.astype(np.float64)
    if settings.algo == 8:
        return peak_at_most_1(reference_lnl(x, draws) + reference_isd(x, draws, settings.g_sd))
    if settings.algo in (1, 4, 5, 6):
        x = reference_lnl(x, draws)
    if settings.algo in (2, 4, 5, 7):
        x = reference_isd(x, draws, settings.g_sd)
    if settings.algo in (3, 4, 6, 7):
        x = reference_ssi(x, draws)
    return x


@pytest.mark.parametrize("algo", range(1, 9))
@pytest.mark.parametrize("length", [400, 16001])
def test_every_algorithm_equals_the_scipy_reference(algo, length):
    settings = replace(ALWAYS, algo=algo)
    for seed in range(5):
        x = noise(length, seed)
        draws = draw(length, settings, np.random.default_rng(seed))
        output = boost(x, draws, settings)
        assert output.dtype == np.float32
        assert_allclose(output, reference(x, draws, settings), atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"minG": -6, "maxG": 12},
        {"N_f": 1},
        {"N_f": 8, "nBands": 1},
        {"minCoeff": 1, "maxCoeff": 4},
        {"minCoeff": 1, "maxCoeff": 1},
        {"minCoeff": 400, "maxCoeff": 900},
        {"minF": 0, "maxF": 200},
        {"minF": 7900, "maxF": 8000, "minBW": 2000, "maxBW": 3000},
    ],
)
def test_other_filter_settings_equal_the_scipy_reference(changes):
    settings = replace(ALWAYS, algo=4, **changes)
    x = noise(6000)
    draws = draw(6000, settings, np.random.default_rng(7))
    assert_allclose(boost(x, draws, settings), reference(x, draws, settings), atol=1e-4)


def test_published_order_of_the_filter_draws():
    """LnL's uniforms come filter by filter: centre, width and taps of each notch, then the gain."""
    uniform = np.random.default_rng(3).random((5, 16))
    lnl = draw(100, replace(ALWAYS, algo=1), np.random.default_rng(3)).lnl
    assert_allclose(lnl.centres_hz[1, 2], 20 + 7980 * uniform[1, 6])
    assert_allclose(lnl.widths_hz[1, 2], 100 + 900 * uniform[1, 7])
    assert lnl.taps[1, 2] == int(10 + 90 * uniform[1, 8]) // 2 * 2 + 1
    assert lnl.gains_db[0] == 0
    assert_allclose(lnl.gains_db[1:], -5 - 15 * uniform[1:, -1])


def test_filters_reach_their_drawn_gain():
    notches = draw(100, replace(ALWAYS, algo=1, minG=3, maxG=3), np.random.default_rng(0)).lnl
    for k, coefficients in enumerate(design(notches)):
        assert len(coefficients) == (notches.taps[k] - 1).sum() + 1
        assert_allclose(
            20 * np.log10(np.abs(freqz(coefficients, 1)[1]).max()), notches.gains_db[k], atol=1e-9
        )
        assert_allclose(coefficients, reference_filter(notches, k), atol=1e-9)


def test_isd_disturbs_distinct_samples_up_to_p_percent():
    settings = replace(ALWAYS, algo=2)
    counts = []
    for seed in range(50):
        isd = draw(1000, settings, np.random.default_rng(seed)).isd
        assert len(np.unique(isd.positions)) == len(isd.positions) == len(isd.factors)
        assert np.abs(isd.factors).max(initial=0) < 1
        counts.append(len(isd.positions))
    assert 0 <= min(counts) < 10 and 90 < max(counts) <= 100


def test_ssi_gives_the_drawn_signal_to_noise_ratio():
    settings = replace(ALWAYS, algo=3, SNRmin=10, SNRmax=40)
    x = noise(20000)
    draws = draw(20000, settings, np.random.default_rng(1))
    added = boost(x, draws, settings).astype(np.float64) - x
    assert 10 <= draws.ssi.snr_db <= 40
    assert_allclose(
        10 * np.log10((x.astype(np.float64) ** 2).sum() / (added**2).sum()),
        draws.ssi.snr_db,
        atol=1e-3,
    )


def test_same_generator_same_output():
    x = noise(4000)
    first, again, other = (augmented(x, ALWAYS, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    assert_array_equal(x, noise(4000))


def test_applying_ratio_enabled_and_algo_0():
    x = noise(200)
    rng = np.random.default_rng(0)
    some = replace(ALWAYS, applyingRatio=0.8)
    drawn = [draw_for_some(200, some, rng) is not None for _ in range(1000)]
    assert 760 <= sum(drawn) <= 840
    assert draw_for_some(200, replace(ALWAYS, algo=0), rng) is None
    for settings in (replace(ALWAYS, applyingRatio=0.0), replace(ALWAYS, algo=0), RawBoost()):
        assert_array_equal(augmented(x, settings, np.random.default_rng(0)), x)
