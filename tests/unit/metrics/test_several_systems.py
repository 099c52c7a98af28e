"""A system leads only where the test on the same trials says so."""

from __future__ import annotations

import numpy as np

from asdf.evaluation import Scores, evaluate
from asdf.metrics.summary import leaders

RNG = np.random.default_rng(7)
LABELS = np.array([1] * 300 + [0] * 300)
NOISE = RNG.normal(size=600)
IDS = [f"u{i}" for i in range(600)]
GOOD = Scores(IDS, LABELS, NOISE + 3 * LABELS)
WEAK = Scores(IDS, LABELS, NOISE + 1 * LABELS)
NEAR = Scores(IDS, LABELS, NOISE + 3 * LABELS + 0.3 * RNG.normal(size=600))


def leading(*systems: Scores, replicates: int = 200) -> dict[str, int]:
    results = [evaluate(system) for system in systems]
    return leaders(results, lambda index: (systems[index], None), replicates)


def test_one_that_is_better_by_far_leads():
    assert leading(WEAK, GOOD, WEAK) == {"eer": 1, "min_dcf": 1}


def test_the_lowest_of_systems_that_chance_separates_does_not():
    good, near = evaluate(GOOD), evaluate(NEAR)
    assert (good.eer, good.min_dcf) != (near.eer, near.min_dcf)
    assert leading(GOOD, NEAR, WEAK) == {}


def test_none_leads_where_the_lowest_value_is_shared():
    assert leading(GOOD, GOOD, WEAK) == {}


def test_none_leads_alone_or_untested_or_on_other_trials():
    assert leading(GOOD) == {}
    assert leading(GOOD, WEAK, replicates=0) == {}
    other = Scores([f"v{i}" for i in range(600)], LABELS, WEAK.scores)
    assert leading(GOOD, other) == {}


def test_speakers_are_drawn_where_they_are_known():
    """Of two speakers one alone may be drawn, on which the systems are equal."""
    shift = np.where(np.arange(600) % 2, 2.0, 0.0)
    better = Scores(IDS, LABELS, NOISE + LABELS * (1 + shift))
    results = [evaluate(WEAK), evaluate(better)]
    speakers = [f"s{i % 2}" for i in range(600)]
    assert leaders(results, lambda i: ((WEAK, better)[i], None), 200) == {"eer": 1, "min_dcf": 1}
    assert leaders(results, lambda i: ((WEAK, better)[i], speakers), 200) == {}
