"""The DET curve, EER and AUC against plain loops, with and without ties; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from asdf.errors import AsdfError
from asdf.evaluation import act_dcf, auc, cllr, det_curve, eer, min_cllr, min_dcf
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
