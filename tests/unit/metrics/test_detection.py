"""The DET curve, EER and AUC against plain loops, with and without ties; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from asdf.errors import AsdfError
from asdf.evaluation import DetectionCost, act_dcf, auc, cllr, det_curve, eer, min_cllr, min_dcf
from tests.unit.metrics.strategies import classes

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
