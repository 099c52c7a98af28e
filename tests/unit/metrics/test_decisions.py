"""Decisions at a threshold: the numbers of scikit-learn, and thresholds that another set gives."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asdf.evaluation import Scores
from asdf.metrics.calibration import Calibration, eer_threshold
from asdf.metrics.decisions import (
    DECISION_METRICS,
    THRESHOLD_RULES,
    Confusion,
    Threshold,
    best_value,
    choose_threshold,
    decide,
    find_turned,
    score_threshold,
)
from asdf.metrics.detection import DetCurve
from asdf.metrics.summary import summarise
from asdf.trials.trial_list import TrialList
from tests.unit.metrics.strategies import classes, scores_of

# Three of four bona fide and one of two spoofs are accepted at 0.
BONA_FIDE = [2.0, 1.0, 0.0, -1.0]
SPOOF = [-2.0, 0.5]


def test_values_by_hand():
    decisions = decide(scores_of(BONA_FIDE, SPOOF), Threshold(0.0, "stated"))
    assert decisions.confusion == Confusion(3, 1, 1, 1)
    assert decisions.confusion.values() == {
        "accuracy": 4 / 6,
        "balanced_accuracy": (3 / 4 + 1 / 2) / 2,
        "macro_f1": (6 / 8 + 2 / 4) / 2,
        "f1_bona_fide": 6 / 8,
        "f1_spoof": 2 / 4,
        "precision_bona_fide": 3 / 4,
        "recall_bona_fide": 3 / 4,
        "precision_spoof": 1 / 2,
        "recall_spoof": 1 / 2,
    }


def test_a_score_at_the_threshold_is_bona_fide():
    assert Confusion.at(np.array([1.0]), np.array([1.0]), 1.0) == Confusion(1, 0, 1, 0)
    above = float(np.nextafter(1.0, 2.0))
    assert Confusion.at(np.array([1.0]), np.array([1.0]), above) == Confusion(0, 1, 0, 1)


@settings(max_examples=25, deadline=None)
@given(classes, st.sampled_from([-40.0, -1.0, -0.5, 0.0, 0.25, 1.0, 40.0]))
def test_values_of_scikit_learn(scores, threshold):
    metrics = pytest.importorskip("sklearn.metrics")
    labels = np.repeat([1, 0], [len(scores[0]), len(scores[1])])
    decided = (np.concatenate(scores) >= threshold).astype(int)
    expected = {
        "accuracy": metrics.accuracy_score(labels, decided),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, decided),
        "macro_f1": metrics.f1_score(labels, decided, average="macro", zero_division=0),
    }
    for label, name in ((1, "bona_fide"), (0, "spoof")):
        for metric in ("f1", "precision", "recall"):
            score = partial(getattr(metrics, f"{metric}_score"), labels, decided)
            expected[f"{metric}_{name}"] = score(pos_label=label, zero_division=0)
    values = decide(scores_of(*scores), Threshold(threshold, "")).confusion.values()
    assert values == pytest.approx(expected, rel=1e-12, abs=1e-15)


@settings(max_examples=150, deadline=None)
@given(classes)
def test_the_best_thresholds_are_the_best_of_all(scores):
    """Every decision that a threshold can make is tried; none is better."""
    bona_fide, spoof = map(np.array, scores)
    curve = DetCurve.of(bona_fide, spoof)
    values = np.unique(np.concatenate([bona_fide, spoof]))
    tried = [Confusion.at(bona_fide, spoof, t) for t in [*values, np.inf]]
    for rule, metric in (
        ("best-f1", "macro_f1"),
        ("best-accuracy", "accuracy"),
        ("best-balanced-accuracy", "balanced_accuracy"),
    ):
        best = max(confusion.rates()[metric] for confusion in tried)
        threshold = choose_threshold(curve, rule)
        assert Confusion.at(bona_fide, spoof, threshold).rates()[metric] == best
        assert best_value(curve, metric) == best
    threshold = choose_threshold(curve, "min-dcf")

    def cost(counts: Confusion) -> float:
        missed = 0.95 * counts.rejected_bona_fide / bona_fide.size
        return missed + 0.5 * counts.accepted_spoof / spoof.size

    assert cost(Confusion.at(bona_fide, spoof, threshold)) == pytest.approx(min(map(cost, tried)))


def test_thresholds_lie_between_scores():
    curve = DetCurve.of([1.0, 2.0, 5.0], [-1.0, 0.0, 1.5])
    assert choose_threshold(curve, "eer") == eer_threshold(curve.bona_fide, curve.spoof)
    # 5 of 6 are right from 0.5 on; and from 1.75 on, which is higher
    assert choose_threshold(curve, "best-accuracy") == 0.5
    assert choose_threshold(DetCurve.of([1.0], [0.0]), "best-f1") == 0.5
    # everything is accepted, or nothing: there is no score on the other side
    assert choose_threshold(DetCurve.of([0.0] * 9, [1.0]), "best-accuracy") == 0.0
    rejects_all = choose_threshold(DetCurve.of([0.0], [1.0] * 9), "best-accuracy")
    assert rejects_all == np.nextafter(1.0, 2.0)
    # no number lies between these two, and their sum is beyond the largest one
    huge = np.finfo(float).max
    curve = DetCurve.of([huge], [np.nextafter(huge, 0)])
    assert choose_threshold(curve, "best-f1") == huge
    rules = "eer min-dcf best-f1 best-accuracy best-balanced-accuracy"
    assert set(THRESHOLD_RULES) == set(rules.split())


@pytest.mark.parametrize("offset", [0.0, -3.7, 1e9])
def test_the_threshold_of_a_network_decides_as_the_network_does(offset):
    rng = np.random.default_rng(1)
    for scale in (1e-3, 0.7, 30.0):
        calibration = Calibration(scale=scale, offset=offset, threshold=offset + 0.3)
        border = score_threshold(calibration)
        near = border + rng.normal(0, 1e-12, 200) * max(1, abs(border))
        scores = np.concatenate([near, [border, np.nextafter(border, -np.inf)]])
        llrs = calibration.llr(scores)
        assert ((scores >= border) == (llrs >= calibration.threshold)).all()


def test_intervals_hold_the_value_and_follow_the_seed():
    rng = np.random.default_rng(4)
    labels = np.arange(400) % 2
    scores = Scores([f"u{i}" for i in range(400)], labels, rng.normal(0, 1, 400) + 2 * labels)
    threshold = Threshold(1.0, "stated")
    speakers = [f"s{i % 20}" for i in range(400)]
    first = decide(scores, threshold, speakers=speakers, replicates=300)
    again = decide(scores, threshold, speakers=speakers, replicates=300)
    assert first == again
    assert tuple(first.intervals) == DECISION_METRICS
    for name, interval in first.intervals.items():
        assert interval.low < interval.value == first.value(name) < interval.high
    # Of n trials drawn anew, the recall has the binomial's standard deviation.
    recall = first.intervals["recall_spoof"]
    width = 2 * 1.96 * np.sqrt(recall.value * (1 - recall.value) / 200)
    assert recall.high - recall.low == pytest.approx(width, rel=0.2)


def test_speakers_are_drawn_whole():
    """Of two speakers, one always right and one always wrong, a draw has both, or one alone."""
    scores = Scores(list("abcd"), np.array([1, 0, 1, 0]), np.array([1.0, -1.0, -1.0, 1.0]))
    decisions = decide(scores, Threshold(0.0, ""), speakers=["a", "a", "b", "b"], replicates=200)
    interval = decisions.speaker_intervals["accuracy"]
    # Two speakers say next to nothing of others.
    assert interval.value == 0.5 and interval.low < 0.01 and interval.high > 0.99


def test_decisions_without_an_error_have_exact_bounds():
    scores = scores_of(np.linspace(1, 2, 50), np.linspace(-2, -1, 20))
    decisions = decide(scores, Threshold(0.0, ""), replicates=100)
    # No error in n trials: p with (1 - p)^n = .025; of all trials, of a class, of the smaller one.
    expected = {"accuracy": 70, "recall_bona_fide": 50, "recall_spoof": 20, "macro_f1": 20}
    for name, trials in expected.items():
        interval = decisions.intervals[name]
        assert (interval.value, interval.high) == (1, 1)
        assert interval.low == pytest.approx(0.025 ** (1 / trials))
    # A rate of which no trial is right is bounded from above.
    all_wrong = scores_of(np.full(50, -1.0), np.full(20, -1.0))
    wrong = decide(all_wrong, Threshold(0.0, ""), replicates=9)
    recall = wrong.intervals["recall_bona_fide"]
    assert (recall.low, recall.value) == (0, 0)
    assert recall.high == pytest.approx(1 - 0.025 ** (1 / 50))


def test_a_summary_has_decisions_by_condition():
    scores = scores_of(BONA_FIDE, SPOOF)
    kinds = ["speech", "speech", "music", "music", "speech", "music"]
    trials = TrialList(scores.ids, scores.labels, columns={"type": kinds})
    options = {"by": ("type",), "replicates": 0}
    summary = summarise("s", "", scores, trials, threshold=Threshold(0.0, "stated"), **options)
    speech, music = sorted(summary.conditions, key=lambda c: c.value, reverse=True)
    assert speech.decisions == Confusion(2, 0, 0, 1)
    assert music.decisions == Confusion(1, 1, 1, 0)
    # The mean counts each kind the same, as track 2 of AT-ADD does.
    assert summary.average_decisions("type")["macro_f1"] == (1 + (2 / 4 + 0) / 2) / 2
    without = summarise("s", "", scores, trials, **options)
    assert without.decisions is None and without.average_decisions("type") == {}


def test_decisions_that_are_turned_round():
    turned = decide(scores_of([-1.0, -2.0], [1.0, 2.0]), Threshold(0.0, ""))
    (finding,) = find_turned(turned)
    assert "0.00 %" in finding.message
    assert find_turned(decide(scores_of([1.0], [0.0, 1.0]), Threshold(0.5, ""))) == []
