"""The methods that intervals of the minDCF are compared by, on sets of known costs."""

import numpy as np
import pytest

from asdf.evaluation import Scores, confidence_intervals, min_dcf
from benchmarks.interval_coverage import METHODS, SHAPES, Drawn, Population, coverage


def test_the_cost_of_a_set_and_of_its_population():
    rng = np.random.default_rng(1)
    for shape in ("skewed", "steps of 1"):
        population = Population(SHAPES[shape], 0.2)
        scores = population.draw((80, 120), rng)
        assert Drawn(*scores, rng).value == pytest.approx(min_dcf(*scores), abs=1e-12)
        many = population.draw((100_000, 100_000), rng)
        assert min_dcf(*many) == pytest.approx(population.min_dcf(), abs=0.01)


def test_the_interval_of_the_reports_is_compared():
    rng = np.random.default_rng(2)
    bona_fide, spoof = Population(SHAPES["normal"], 0.2).draw((80, 120), rng)
    low, high = METHODS["here"](Drawn(bona_fide, spoof, rng))
    labels = np.repeat([1, 0], [80, 120])
    scores = Scores([f"u{i}" for i in range(200)], labels, np.concatenate([bona_fide, spoof]))
    printed = confidence_intervals(scores, replicates=1000).min_dcf
    assert (low, high) == pytest.approx((printed.low, printed.high), abs=0.03)


def test_percentiles_lie_below_the_truth():
    shares = coverage(Population(SHAPES["normal"], 0.2), list(METHODS), (80, 120), 30)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(METHODS)))
    by_name = dict(zip(METHODS, shares, strict=True))
    below = {name: share[0] for name, share in by_name.items()}
    assert below["percentiles"] > 0.1 > below["here"]
