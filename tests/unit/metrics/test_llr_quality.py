"""Tippett, ECE, reliability, devPAV: by formulas written out, scikit-learn and values of lir."""

import math

import numpy as np
import pytest

from asdf.metrics.detection import DetCurve, cllr, min_cllr, pav_llrs
from asdf.metrics.llr_maps import EmpiricalCrossEntropy, Tippett, dev_pav, llr_quality, reliability

RNG = np.random.default_rng(5)
# Rounded, so that scores are tied within and between the classes.
BONA_FIDE = np.round(RNG.normal(1.5, 2, 40), 1)
SPOOF = np.round(RNG.normal(-1.5, 2, 60), 1)
CURVE = DetCurve.of(BONA_FIDE, SPOOF)
LOG10_ODDS = np.array([-2, -0.5, 0, 1.0])


def test_pav_is_isotonic_regression_of_both_classes():
    isotonic = pytest.importorskip("sklearn.isotonic")
    scores = np.concatenate([BONA_FIDE, SPOOF])
    labels = np.repeat([1.0, 0.0], [40, 60])
    proportions = isotonic.IsotonicRegression().fit(scores, labels).predict(scores)
    with np.errstate(divide="ignore"):
        expected = np.log(proportions) - np.log(1 - proportions) - math.log(40 / 60)
    found = np.concatenate(pav_llrs(CURVE))
    finite = np.isfinite(expected)
    assert finite.sum() > 50 and not finite.all()
    assert found[finite] == pytest.approx(expected[finite], abs=1e-9)
    assert (found[~finite] == expected[~finite]).all()


def test_cross_entropies_are_those_of_the_package_of_the_nfi():
    """Values of lir 1.3.1, `calculate_ece` and `IsotonicCalibrator`, on the same scores."""
    entropy = EmpiricalCrossEntropy.of(CURVE, LOG10_ODDS)
    assert entropy.llrs == pytest.approx([0.06816715, 0.57458546, 0.69161266, 0.30106056], abs=1e-8)
    calibrated = [0.05939006, 0.48372734, 0.56855456, 0.23559439]
    assert entropy.calibrated == pytest.approx(calibrated, abs=1e-8)
    assert entropy.reference == pytest.approx([0.08013605, 0.79546088, 1, 0.43949699], abs=1e-8)


def test_cross_entropies_are_the_formula_of_ramos_and_gonzalez_rodriguez():
    (found,) = EmpiricalCrossEntropy.of(CURVE, np.array([0.7])).llrs
    odds = 10**0.7
    prior = odds / (1 + odds)
    misses = [math.log2(1 + 1 / (math.exp(llr) * odds)) for llr in BONA_FIDE]
    false_alarms = [math.log2(1 + math.exp(llr) * odds) for llr in SPOOF]
    expected = prior * sum(misses) / 40 + (1 - prior) * sum(false_alarms) / 60
    assert found == pytest.approx(expected, rel=1e-12)


def test_at_even_odds_cross_entropies_are_cllr_and_min_cllr():
    entropy = EmpiricalCrossEntropy.of(CURVE)
    middle = len(entropy.log10_odds) // 2
    assert entropy.log10_odds[middle] == 0
    assert entropy.llrs[middle] == pytest.approx(cllr(BONA_FIDE, SPOOF))
    assert entropy.calibrated[middle] == pytest.approx(min_cllr(BONA_FIDE, SPOOF))
    assert (entropy.calibrated <= np.minimum(entropy.llrs, entropy.reference) + 1e-12).all()


def test_large_ratios_neither_overflow_nor_hide():
    entropy = EmpiricalCrossEntropy.of(DetCurve.of([900.0, -900.0], [-900.0]), np.array([0.0]))
    assert entropy.llrs[0] == pytest.approx(900 / math.log(2) / 4)


def test_dev_pav_is_that_of_the_package_of_the_nfi():
    """The value of lir 1.3.1, `devpav`, on the same scores."""
    assert dev_pav(CURVE) == pytest.approx(0.23224064912579673, abs=1e-12)


def test_dev_pav_by_hand():
    # PAV: -1 has 1 bona fide of 3 (ratio 1/2 of 1 : 2 -> log 0.25...), 1 has the rest.
    curve = DetCurve.of([-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0])
    low, high = math.log10((1 / 3) / (2 / 3)), math.log10((2 / 3) / (1 / 3))
    x = 1 / math.log(10)
    # The map rises less than the ratios: two triangles, that meet at 0.
    side = abs(low + x)
    assert low == -high
    assert dev_pav(curve) == pytest.approx(side / 2)
    assert dev_pav(DetCurve.of([1.0], [0.0])) is None


def test_the_parts_of_cllr_are_its_sum():
    quality = llr_quality(CURVE)
    assert quality.cllr == pytest.approx(cllr(BONA_FIDE, SPOOF))
    assert quality.min_cllr == pytest.approx(min_cllr(BONA_FIDE, SPOOF))
    assert quality.cllr_cal == pytest.approx(quality.cllr - quality.min_cllr)
    assert quality.describe() == (
        "Cllr 0.692 bits: 0.569 by discrimination and 0.123 by calibration; devPAV 0.232 (log10)"
    )


def test_tippett_has_the_rates_of_misleading_evidence():
    tippett = Tippett.of(DetCurve.of([2.0, -1.0, 0.5, 0.0], [-2.0, 1.0]))
    assert tippett.bona_fide.tolist() == [-1.0, 0.0, 0.5, 2.0]
    assert tippett.misleading_bona_fide == 0.25
    assert tippett.misleading_spoof == 0.5


def test_reliability_counts_recordings_by_their_stated_probability():
    stats = pytest.importorskip("scipy.stats")
    bins = reliability(CURVE, bins=5)
    assert sum(one.trials for one in bins) == 100
    llrs = np.concatenate([BONA_FIDE, SPOOF])
    stated = 1 / (1 + np.exp(-llrs) * 60 / 40)
    first = stated < 0.2
    assert bins[0].trials == first.sum()
    assert bins[0].predicted == pytest.approx(stated[first].mean())
    right = int(first[:40].sum())
    assert bins[0].observed == right / first.sum()
    wrong = first.sum() - right
    # Jeffreys' interval.
    interval = stats.beta(right + 0.5, wrong + 0.5).ppf([0.025, 0.975])
    assert [bins[0].low, bins[0].high] == pytest.approx(interval.tolist(), rel=1e-6)


def test_perfectly_stated_probabilities_lie_on_the_diagonal():
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.02, 0.98, 40_000)
    is_bona_fide = rng.uniform(size=40_000) < chances
    counts = is_bona_fide.sum(), (~is_bona_fide).sum()
    llrs = np.log(chances / (1 - chances)) - math.log(counts[0] / counts[1])
    for one in reliability(DetCurve.of(llrs[is_bona_fide], llrs[~is_bona_fide])):
        assert one.observed == pytest.approx(one.predicted, abs=0.03)
