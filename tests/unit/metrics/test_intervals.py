"""Student's t and exact intervals of proportions, held against scipy's."""

import math

import pytest

from asdf.metrics.intervals import (
    beta_quantile,
    exact_bounds,
    regularised_beta,
    t_quantile,
    two_sided_p,
)

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")


@pytest.mark.parametrize("degrees", [1, 1.7, 2, 4, 9.3, 60, 1000, math.inf])
@pytest.mark.parametrize("t", [0.0, 0.01, 0.5, 1.0, -2.5, 4.0, 40.0])
def test_p_values_are_those_of_scipy(t, degrees):
    assert two_sided_p(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-9)


def test_the_beta_function_on_both_sides_of_its_middle():
    for x in (0.0, 0.003, 0.4, 0.9, 0.9999, 1.0):
        assert regularised_beta(x, 2.5, 0.5) == pytest.approx(special.betainc(2.5, 0.5, x))


def test_quantiles_are_those_of_scipy():
    for degrees in (1, 2, 5, 9.3, 60):
        expected = stats.t.ppf(0.975, degrees)
        assert t_quantile(0.95, degrees) == pytest.approx(expected, rel=1e-9)
    assert t_quantile(0.95, math.inf) == pytest.approx(stats.norm.ppf(0.975))
    for a, b in ((0.5, 80.5), (2.5, 1.5), (3.5, 1e5), (5e4, 9.5e5)):
        for share in (0.025, 0.5, 0.975):
            expected = stats.beta.ppf(share, a, b)
            assert beta_quantile(share, a, b) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("errors", "trials"), [(0, 80), (1, 40), (7, 20), (3, 300), (80, 80), (300, 5000)]
)
def test_shares_have_the_interval_of_clopper_and_pearson(errors, trials):
    expected = stats.binomtest(errors, trials).proportion_ci(0.95, method="exact")
    assert exact_bounds(errors, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)
