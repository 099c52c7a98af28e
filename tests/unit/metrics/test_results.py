"""The results table, its files, the breakdown by condition, and which system leads."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.evaluation import (
    DetectionCost,
    Result,
    Row,
    Scores,
    by_condition,
    evaluate,
    results_table,
    write_results,
)
from asdf.metrics.results import MetricValue
from asdf.metrics.summary import leaders
from asdf.trials.how_scored import PUBLISHED, HowScored
from tests.unit.metrics.strategies import scores_of

RATES = (0.010601347517626343, 1.4512664079666138, 0.029893113388380865, 0.0443953647, 0.06625195)
RAWGAT = Result(*RATES, 7355, 63882)
SMALL = evaluate(scores_of([2, 1, 0.5, -0.2], [-1, -2, 0.1, 0.6, -3]))
ROWS = [
    Row("7", "asvspoof19-eval", RAWGAT, HowScored(PUBLISHED, "bf16")),
    ("average", "small", SMALL),
]


def test_costs_are_those_that_are_asked_for():
    # One bona fide trial of four is rejected at the threshold 0, and one spoof of two accepted.
    scores = scores_of([3.0, 2.5, 2.0, -0.5], [-1.0, 1.0])
    equal = evaluate(scores, DetectionCost(spoof_prior=0.5, miss=1, false_alarm=1))
    assert (equal.min_dcf, equal.act_dcf) == (0.25, 0.75)


def test_table_text():
    assert results_table(ROWS) == (
        "epoch    set               EER %  minDCF  threshold  bona fide  spoof  "
        "scored\n"
        "7        asvspoof19-eval   1.060  0.0299     1.4513       7355  63882  "
        "first 64,600 samples, in bf16\n"
        "average  small            22.500  0.4000     0.1000          4      5  "
        "not known\n"
    )


def test_files_hold_the_rows_with_all_digits_and_the_same_bytes(tmp_path):
    write_results(tmp_path / "results", ROWS)
    first = {p.name: p.read_bytes() for p in (tmp_path / "results").iterdir()}
    assert set(first) == {"results.txt", "results.json"}
    assert first["results.txt"].decode() == results_table(ROWS)
    rawgat, small = json.loads(first["results.json"])
    role = {"trained_on": None, "chose_network": None}
    length = {"min_samples": 64600, "max_samples": 64600}
    how = {"scored_length": length, "scoring_precision": "bf16", **role}
    assert rawgat == {"epoch": "7", "set": "asvspoof19-eval", **asdict(RAWGAT), **how}
    how = {"scored_length": None, "scoring_precision": None, **role}
    assert small == {"epoch": "average", "set": "small", **asdict(SMALL), **how}
    write_results(tmp_path / "results", ROWS)
    assert {p.name: p.read_bytes() for p in (tmp_path / "results").iterdir()} == first


def test_a_metric_that_chose_networks_is_a_column_and_an_entry(tmp_path):
    chosen = MetricValue("auc", 0.85, lower_is_better=False)
    rows = [ROWS[1], Row("best", "small", SMALL, chosen_by=chosen)]
    header, first, second = results_table(rows).splitlines()
    assert header.split()[:5] == ["epoch", "set", "EER", "%", "auc"]
    assert (first.split()[3], second.split()[3]) == ("-", "0.8500")
    plain, record = write_results(tmp_path, rows)
    assert "validation_metric" not in plain
    assert (record["validation_metric"], record["validation_value"]) == ("auc", 0.85)
    assert record["lower_is_better"] is False


def _conditions() -> tuple[Scores, list[str]]:
    scores = scores_of([1.0, 2.0, 3.0], [2.5, 0.0, 3.5, -1.0, 5.0])
    return scores, ["c1", "c2", "c2", "c2", "c1", "c2", "c1", "c3"]


def test_by_condition_takes_all_bona_fide():
    scores, values = _conditions()
    results = by_condition(scores, values)
    assert list(results) == ["c1", "c2", "c3"]
    assert [(r.bona_fide, r.spoof) for r in results.values()] == [(3, 2), (3, 2), (3, 1)]
    assert [r.eer for r in results.values()] == [0.0, pytest.approx((2 / 3 + 1 / 2) / 2), 1.0]


def test_by_condition_takes_bona_fide_of_the_same_value():
    scores, values = _conditions()
    results = by_condition(scores, values, bona_fide="same")
    found = {value: (r.bona_fide, r.spoof, r.eer) for value, r in results.items()}
    assert found == {"c1": (1, 2, 0.0), "c2": (2, 2, 0.5)}


def test_by_condition_wants_both_classes_and_one_value_a_trial():
    scores, values = _conditions()
    with pytest.raises(ValueError, match="7 values for 8 trials"):
        by_condition(scores, values[:-1])
    with pytest.raises(AsdfError, match="no bona fide trial"):
        by_condition(Scores(["a"], np.array([0]), np.array([1.0])), ["A01"])


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
