"""The DET curve, error rates and costs, alone and in tandem with speaker verification."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asdf.errors import AsdfError
from asdf.evaluation import (
    AsvRates,
    AsvScores,
    DetectionCost,
    act_dcf,
    asv_rates,
    auc,
    cllr,
    det_curve,
    eer,
    min_a_dcf,
    min_cllr,
    min_dcf,
    min_tdcf,
    min_tdcf_legacy,
    t_eer,
)
from tests.unit.metrics.strategies import classes, triples

from . import official


@settings(max_examples=300)
@given(classes)
def test_det_curve_and_eer_are_the_loops(scores):
    frr, far, thresholds = det_curve(*scores)
    assert list(zip(frr, far, thresholds, strict=True)) == official.det_points(*scores)
    assert eer(*scores) == official.eer(*scores)


def test_order_of_the_trials_does_not_matter():
    rng = np.random.default_rng(3)
    bona_fide, spoof = rng.integers(-4, 9, 300) / 4, rng.integers(-8, 5, 500) / 4
    expected = eer(bona_fide, spoof), min_dcf(bona_fide, spoof), min_cllr(bona_fide, spoof)
    for _ in range(5):
        bona_fide, spoof = rng.permutation(bona_fide), rng.permutation(spoof)
        found = [metric(bona_fide, spoof) for metric in (eer, min_dcf, min_cllr)]
        assert found == list(expected)


@pytest.mark.parametrize("metric", [det_curve, eer, auc, min_dcf, act_dcf, cllr, min_cllr])
def test_one_class_or_nan_is_refused(metric):
    with pytest.raises(AsdfError, match="no bona fide trial"):
        metric([], [1.0])
    with pytest.raises(AsdfError, match="no spoof trial"):
        metric([1.0], [])
    with pytest.raises(AsdfError, match="1 spoof scores are NaN"):
        metric([1.0], [0.0, float("nan")])


@settings(max_examples=300, deadline=None)
@given(classes)
def test_costs_are_the_loops(scores):
    assert min_dcf(*scores) == pytest.approx(official.min_dcf(*scores), rel=1e-12)
    assert act_dcf(*scores) == pytest.approx(official.act_dcf(*scores), rel=1e-12)
    assert cllr(*scores) == pytest.approx(official.cllr(*scores), rel=1e-12)
    assert auc(*scores) == pytest.approx(official.auc(*scores), rel=1e-12)
    other = DetectionCost(spoof_prior=0.5, miss=2, false_alarm=3)
    assert min_dcf(*scores, other) == pytest.approx(official.min_dcf(*scores, 0.5, 2, 3), rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(classes)
def test_min_cllr_is_the_min_max_formula(scores):
    assert min_cllr(*scores) == pytest.approx(official.min_cllr(*scores), rel=1e-9, abs=1e-12)


def test_cllr_neither_overflows_nor_underflows():
    assert cllr([-1e4], [1e4]) == pytest.approx(1e4 / np.log(2), rel=1e-12)
    assert cllr([1e300], [-1e300]) == 0
    assert min_cllr([1e300], [-1e300]) == 0
    assert cllr([40.0], [-40.0]) == pytest.approx(np.exp(-40) / np.log(2), rel=1e-9)


def test_bayes_threshold_and_its_side():
    """The threshold itself is accepted: a miss lies below it, a false alarm lies on it or above."""
    threshold = DetectionCost().threshold
    assert threshold == pytest.approx(-0.6418538862, abs=1e-10)
    assert act_dcf([threshold], [-9.0]) == 0
    assert act_dcf([9.0], [threshold]) == 1


def test_asv_rates_at_their_threshold():
    """The EER threshold of [1, 2, 3, 4] and [0, 1, 2, -1] is 1 (ties: target first): accepted."""
    asv = AsvScores(np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 2, -1]), np.array([1.0, 0.5, 3, 2]))
    assert official.eer([1, 2, 3, 4], [0, 1, 2, -1])[1] == 1
    assert asv_rates(asv) == AsvRates(miss=0.0, false_alarm=0.5, spoof_false_alarm=0.75)


@settings(max_examples=200)
@given(classes, st.floats(0, 0.2), st.floats(0, 0.2), st.floats(0.01, 1))
def test_tdcf_is_the_formula(scores, miss, fa, spoof_fa):
    rates = AsvRates(miss, fa, spoof_fa)
    points = official.det_points(*scores)
    c1, c2 = 0.9405 * (1 - miss) - 0.0095 * 10 * fa, 10 * 0.05 * spoof_fa
    legacy = min((c1 * frr + c2 * far) / min(c1, c2) for frr, far, _ in points)
    assert min_tdcf_legacy(*scores, rates) == pytest.approx(legacy, rel=1e-12)
    c0 = 0.9405 * miss + 10 * 0.0095 * fa
    c1 = 0.9405 - c0
    revised = min((c0 + c1 * frr + c2 * far) / (c0 + min(c1, c2)) for frr, far, _ in points)
    assert min_tdcf(*scores, rates) == pytest.approx(revised, rel=1e-12)


@pytest.mark.parametrize("metric", [min_tdcf, min_tdcf_legacy])
def test_tdcf_without_meaning_is_refused(metric):
    with pytest.raises(AsdfError, match="not defined"):
        metric([1.0], [0.0], AsvRates(miss=0.1, false_alarm=0.1, spoof_false_alarm=0.0))
    with pytest.raises(AsdfError, match="not defined"):
        metric([1.0], [0.0], AsvRates(miss=1.0, false_alarm=1.0, spoof_false_alarm=0.5))


@settings(max_examples=200)
@given(triples)
def test_a_dcf_is_the_loop(scores):
    value, threshold = min_a_dcf(*scores)
    assert value == pytest.approx(official.a_dcf(*scores), rel=1e-12)
    assert threshold <= max(map(max, scores))


def test_a_dcf_threshold_rejects_exactly_what_lies_up_to_it():
    assert min_a_dcf([3.0, 4.0], [1.0], [2.0, 0.0]) == (0.0, 2.0)


@pytest.mark.parametrize("ties", [False, True])
def test_t_eer_is_the_loop(ties):
    rng = np.random.default_rng(7)
    for i in range(150):
        # Powers of two make rates exact: two CM thresholds are often equally near to equal rates.
        sizes = rng.choice([2, 4, 8], 3) if i % 2 else rng.integers(2, 25, 3)
        asv = [rng.normal(m, 1, n) for m, n in zip((2, -1, 1), sizes, strict=True)]
        cm = [rng.normal(m, 1, n) for m, n in zip((1, 1, -1), sizes, strict=True)]
        if ties:
            asv, cm = [np.round(a) for a in asv], [np.round(c) for c in cm]
        expected = official.t_eer(tuple(a.tolist() for a in asv), tuple(c.tolist() for c in cm))
        found = t_eer(AsvScores(*asv), AsvScores(*cm))
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


@settings(max_examples=100)
@given(triples, st.randoms(use_true_random=False))
def test_t_eer_of_anything_is_the_loop_or_refused(asv, random):
    cm = [random.choices([-1.0, 0.0, 0.25, 1.0], k=len(kind)) for kind in asv]
    expected = official.t_eer(asv, tuple(cm))
    scores = AsvScores(*map(np.array, asv)), AsvScores(*map(np.array, cm))
    if expected is None:
        with pytest.raises(AsdfError, match="t-EER is not defined"):
            t_eer(*scores)
    else:
        assert t_eer(*scores) == pytest.approx(expected, rel=1e-12, abs=1e-15)
