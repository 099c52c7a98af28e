"""Detection costs and Cllr against plain loops over their formulas, with and without ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from asdf.evaluation import DetectionCost, act_dcf, auc, cllr, min_cllr, min_dcf
from tests.unit.metrics.strategies import classes

from . import official


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
