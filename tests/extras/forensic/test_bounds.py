"""Bounds of LLRs: the values of lir of the Netherlands Forensic Institute, and what they must be.

Invariant: they are those of its `elub`, version 1.3.1, where no error rate is exactly that of the
prior; there its rounding decides, and here the threshold counts as supported.
"""

import math

import numpy as np
import pytest

from asdf.extras.forensic.support import empirical_bounds

# Numbers of bona fide and spoof, mean and deviation, then the log10 bounds that lir computes for
# the scores of `_draw`, all from one generator.
_OF_LIR = [
    (80, 120, 2.0, 1.4, -1.27, 1.28),
    (20, 20, 0.3, 1.0, -0.13, 0.47),
    (500, 40, 3.0, 2.0, -1.89, 1.27),
    (12, 900, 1.5, 3.0, -0.15, 0.26),
    (30, 30, -0.5, 1.0, 0.0, 0.0),
]


def _draw(rng, bona_fide, spoof, mean, deviation):
    return (
        np.round(rng.normal(mean, deviation, bona_fide), 3),
        np.round(rng.normal(-mean, deviation, spoof), 3),
    )


def test_they_are_those_of_lir():
    rng = np.random.default_rng(7)
    for bona_fide, spoof, mean, deviation, lowest, highest in _OF_LIR:
        llrs = _draw(rng, bona_fide, spoof, mean, deviation)
        assert np.array(empirical_bounds(*llrs)) / math.log(10) == pytest.approx([lowest, highest])


def normalised_error_rate(bona_fide, spoof, threshold):
    """Written out: the misleading trial of each class is one of n + 1."""
    missed = (sum(llr <= threshold for llr in bona_fide) + 1) / (len(bona_fide) + 1)
    accepted = (sum(llr > threshold for llr in spoof) + 1) / (len(spoof) + 1)
    # The threshold is that of a spoof's odds and costs of exp(threshold) to 1.
    return (missed + math.exp(threshold) * accepted) / min(1, math.exp(threshold))


def test_between_the_bounds_decisions_are_no_worse_than_by_the_prior():
    rng = np.random.default_rng(11)
    bona_fide, spoof = rng.normal(2, 1.5, 80), rng.normal(-2, 1.5, 120)
    lowest, highest = empirical_bounds(bona_fide, spoof)
    assert lowest < -1 < 1 < highest
    for threshold in np.linspace(lowest, highest, 50):
        assert normalised_error_rate(bona_fide, spoof, threshold) < 1.03
    step = 0.011 * math.log(10)
    assert normalised_error_rate(bona_fide, spoof, highest + step) > 1
    assert normalised_error_rate(bona_fide, spoof, lowest - step) > 1


def test_trials_without_an_error_support_the_logarithm_of_their_number():
    """One misleading spoof in 121: at odds beyond 121 to 1 the prior alone decides better."""
    lowest, highest = empirical_bounds(np.full(80, 20.0), np.full(120, -20.0))
    assert highest == pytest.approx(math.log(121), abs=0.02 * math.log(10))
    assert lowest == pytest.approx(-math.log(81), abs=0.02 * math.log(10))


def test_bounds_are_no_wider_than_what_was_seen():
    lowest, highest = empirical_bounds(np.full(800, 1.0), np.full(900, -0.5))
    assert highest == pytest.approx(1.0, abs=0.03)
    assert lowest == pytest.approx(-0.5, abs=0.03)


def test_a_system_that_is_worse_than_the_prior_supports_nothing():
    assert empirical_bounds(np.full(50, -2.0), np.full(50, 2.0)) == (0.0, 0.0)
