"""Weights of several systems against scikit-learn's and scipy's optimum of the same loss."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from asdf.errors import AsdfError
from asdf.metrics.calibration import fit_llr
from asdf.metrics.llr_maps import fit_weights

RNG = np.random.default_rng(4)
BONA_FIDE = RNG.normal((2, 1, 0.5), (1, 2, 1), (150, 3)) * (1, 10, 0.1) + (5, 0, -1)
SPOOF = RNG.normal((0, 0, 0), (1, 2, 1), (700, 3)) * (1, 10, 0.1) + (5, 0, -1)


def loss(solution):
    """The loss with equally weighted classes, written out."""
    of_bona_fide = BONA_FIDE @ solution[:3] + solution[3]
    of_spoof = SPOOF @ solution[:3] + solution[3]
    return (np.logaddexp(0, -of_bona_fide).mean() + np.logaddexp(0, of_spoof).mean()) / 2


def test_no_other_weights_have_a_lower_loss():
    weights, offset = fit_weights(BONA_FIDE, SPOOF)
    ours = np.array([*weights, offset])
    theirs = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    assert loss(ours) <= loss(theirs.x) + 1e-12
    np.testing.assert_allclose(ours, theirs.x, rtol=2e-4)


def test_weights_are_those_of_scikit_learn():
    scores = np.concatenate([BONA_FIDE, SPOOF])
    labels = np.repeat([1, 0], [150, 700])
    centre, spread = scores.mean(axis=0), scores.std(axis=0)
    model = LogisticRegression(C=np.inf, class_weight="balanced", tol=1e-12, max_iter=10_000)
    model.fit((scores - centre) / spread, labels)
    weights, offset = fit_weights(BONA_FIDE, SPOOF)
    np.testing.assert_allclose(weights, model.coef_[0] / spread, rtol=1e-4)
    expected = model.intercept_[0] - (model.coef_[0] * centre / spread).sum()
    assert offset == pytest.approx(expected, rel=1e-4)


def test_one_system_is_calibrated_as_ever():
    weights, offset = fit_weights(BONA_FIDE[:, :1], SPOOF[:, :1])
    assert (weights[0], offset) == fit_llr(BONA_FIDE[:, 0], SPOOF[:, 0])


def test_a_system_and_its_double_share_their_weight():
    (alone,), offset = fit_weights(BONA_FIDE[:, :1], SPOOF[:, :1])
    twice, same_offset = fit_weights(BONA_FIDE[:, [0, 0]], SPOOF[:, [0, 0]])
    np.testing.assert_allclose(twice, [alone / 2, alone / 2], rtol=1e-9)
    assert same_offset == pytest.approx(offset, rel=1e-9)


def test_classes_that_only_both_systems_separate_claim_no_certainty():
    """x + y is 1 or 0, each alone overlaps: the LLRs bound their claims by Platt's targets."""
    x = np.arange(-5.0, 6.0)
    bona_fide = np.stack([x, 1 - x], axis=1)
    spoof = np.stack([x, -x], axis=1)
    weights, offset = fit_weights(bona_fide, spoof)
    # All 11 trials of a class get the same LLR, that of 12 in 13: log 12.
    np.testing.assert_allclose(bona_fide @ weights + offset, np.log(12), rtol=1e-9)
    np.testing.assert_allclose(spoof @ weights + offset, -np.log(12), rtol=1e-9)


def test_a_constant_system_is_refused():
    with pytest.raises(AsdfError, match="all scores are equal"):
        fit_weights(np.ones((3, 2)), np.ones((3, 2)))
