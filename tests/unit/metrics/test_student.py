"""Student's t distribution, held against scipy's."""

from __future__ import annotations

import pytest

from asdf.metrics.student import regularised_beta, two_sided_p

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")


@pytest.mark.parametrize("degrees", [1, 1.7, 2, 4, 9.3, 60, 1000])
@pytest.mark.parametrize("t", [0.0, 0.01, 0.5, 1.0, -2.5, 4.0, 40.0])
def test_p_values_are_those_of_scipy(t, degrees):
    assert two_sided_p(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-9)


def test_the_beta_function_on_both_sides_of_its_middle():
    for x in (0.0, 0.003, 0.4, 0.9, 0.9999, 1.0):
        assert regularised_beta(x, 2.5, 0.5) == pytest.approx(special.betainc(2.5, 0.5, x))
