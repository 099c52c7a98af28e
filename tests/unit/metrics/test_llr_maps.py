"""Maps to LLRs against scikit-learn and scipy, and that each of them rises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats
from sklearn.linear_model import LogisticRegression

from asdf.errors import AsdfError
from asdf.metrics.detection import cllr
from asdf.metrics.llr_maps import (
    KNOTS,
    METHODS,
    LlrMap,
    bi_gaussian_cllr,
    bi_gaussian_sigma,
    fit_llr,
    fit_map,
    fit_weights,
)


def drawn(bona_fide=80, spoof=120, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1.5, 2, bona_fide) * 3 - 7, rng.normal(-1.5, 1, spoof) * 3 - 7


def by_scikit_learn(bona_fide, spoof, pseudo):
    """Both classes weigh one half; each trial counts in both, with `pseudo` / 2n each."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    both = np.concatenate([bona_fide, spoof])
    labels = np.repeat([1, 0], [bona_fide.size, spoof.size])
    weights = np.repeat([0.5 / bona_fide.size, 0.5 / spoof.size], [bona_fide.size, spoof.size])
    share = np.full(both.size, pseudo / (2 * both.size))
    # No penalty of its own: C multiplies the loss, whose weights sum to about one.
    regression = linear_model.LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000)
    regression.fit(
        np.concatenate([both, both, both])[:, None],
        np.concatenate([labels, np.ones_like(labels), np.zeros_like(labels)]),
        sample_weight=np.concatenate([weights, share, share]),
    )
    return float(regression.coef_[0, 0]), float(regression.intercept_[0])


def test_logistic_and_regularised_maps_are_those_of_scikit_learn():
    bona_fide, spoof = drawn()
    for method, units, pseudo in (
        ("logistic", None, 0.0),
        ("regularised", None, 1 / 200),
        ("regularised", 20, 1 / 20),
    ):
        fitted = fit_map(method, bona_fide, spoof, units)
        expected = by_scikit_learn(bona_fide, spoof, pseudo)
        assert (fitted.scale, fitted.offset) == pytest.approx(expected, rel=1e-4)


def test_pseudo_data_shrink_llrs_the_more_the_fewer_units_there_are():
    bona_fide, spoof = drawn()
    scales = [fit_map("logistic", bona_fide, spoof).scale]
    scales += [fit_map("regularised", bona_fide, spoof, units).scale for units in (200, 20, 5)]
    assert scales == sorted(scales, reverse=True)
    # Classes apart have no logistic map of a finite slope; with pseudo-data they have one.
    assert 0 < fit_map("regularised", [1.0, 2.0], [-1.0, -2.0]).scale < 5


@pytest.mark.parametrize("sigma", [0.2, 1.0, 2.5, 6.0])
def test_the_cllr_of_a_perfectly_calibrated_system_is_its_integral(sigma):
    def cost(llr):
        return stats.norm.pdf(llr, sigma**2 / 2, sigma) * np.logaddexp(0, -llr) / math.log(2)

    centre = sigma**2 / 2
    ends = (centre - 12 * sigma, centre + 12 * sigma)
    expected = integrate.quad(cost, *ends, points=[0], epsabs=1e-13, limit=400)[0]
    assert bi_gaussian_cllr(sigma) == pytest.approx(expected, abs=1e-10)
    assert bi_gaussian_sigma(expected) == pytest.approx(sigma, abs=1e-7)


def test_the_bi_gaussian_map_moves_quantiles_to_those_of_the_mixture():
    bona_fide, spoof = drawn()
    affine = fit_map("logistic", bona_fide, spoof)
    target = cllr(affine(bona_fide), affine(spoof))
    sigma = optimize.brentq(lambda each: bi_gaussian_cllr(each) - target, 0.01, 10)
    normal = stats.norm(0, sigma)

    def mixture(llr):
        return (normal.cdf(llr - sigma**2 / 2) + normal.cdf(llr + sigma**2 / 2)) / 2

    scores = np.sort(np.concatenate([bona_fide, spoof]))
    steps = np.where(np.isin(scores, bona_fide), 0.5 / 81, 0.5 / 121)
    levels = (1 - steps.sum()) / 2 + np.cumsum(steps) - steps / 2
    quantiles = [optimize.brentq(lambda llr, at=at: mixture(llr) - at, -30, 30) for at in levels]
    fitted = fit_map("bi-gaussian", bona_fide, spoof)
    assert len(fitted.scores) == KNOTS
    assert fitted(scores[[0, -1]]) == pytest.approx([quantiles[0], quantiles[-1]], abs=1e-9)
    # Knots at equal distances of LLR leave out what single trials do between them.
    expected = np.interp(fitted.scores, scores, quantiles)
    assert np.abs(fitted(fitted.scores) - expected).max() < 0.1
    assert np.abs(fitted(scores) - quantiles).max() < 0.3


def test_of_gaussians_with_one_variance_the_bi_gaussian_map_is_the_true_one():
    rng = np.random.default_rng(4)
    bona_fide, spoof = rng.normal(3, 2, 40_000), rng.normal(-1, 2, 30_000)
    fitted = fit_map("bi-gaussian", bona_fide, spoof)
    points = np.linspace(-4, 6, 21)
    # 4 (x - 1) / 2 ** 2
    assert np.abs(fitted(points) - (points - 1)).max() < 0.12


def test_exchanging_the_classes_turns_the_sign_alone():
    bona_fide, spoof = drawn()
    turned_bona_fide, turned_spoof = -spoof, -bona_fide
    points = np.linspace(-20, 10, 50)
    for method in METHODS:
        fitted = fit_map(method, bona_fide, spoof)
        turned = fit_map(method, turned_bona_fide, turned_spoof)
        assert turned(-points) == pytest.approx(-fitted(points), abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6), method=st.sampled_from(METHODS), grain=st.sampled_from([0, 1, 2])
)
def test_maps_rise_and_have_an_inverse(seed, method, grain):
    rng = np.random.default_rng(seed)
    bona_fide, spoof = rng.normal(3, 1, 30), rng.standard_t(3, 50)
    # Rounded scores have ties within and across the classes.
    if grain:
        bona_fide, spoof = np.round(bona_fide, grain - 1), np.round(spoof, grain - 1)
    fitted = fit_map(method, bona_fide, spoof)
    points = np.linspace(-30, 30, 400)
    assert (np.diff(fitted(points)) > 0).all()
    for point in (-25.0, -1.0, 0.3, 2.0, 40.0):
        assert fitted.inverse(float(fitted(point))) == pytest.approx(point, abs=1e-9)


def test_beyond_its_knots_a_map_goes_on_with_its_scale():
    with_knots = LlrMap(2.0, 0.0, (0.0, 1.0, 3.0), (-1.0, 0.0, 5.0))
    assert with_knots([-2.0, 0.5, 2.0, 4.0]).tolist() == [-5.0, -0.5, 2.5, 7.0]
    assert [with_knots.inverse(llr) for llr in (-5.0, -0.5, 2.5, 7.0)] == [-2.0, 0.5, 2.0, 4.0]


RNG = np.random.default_rng(4)
BONA_FIDE = RNG.normal((2, 1, 0.5), (1, 2, 1), (150, 3)) * (1, 10, 0.1) + (5, 0, -1)
SPOOF = RNG.normal((0, 0, 0), (1, 2, 1), (700, 3)) * (1, 10, 0.1) + (5, 0, -1)


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
