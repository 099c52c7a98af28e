"""Source tracing measured: values by hand, of scikit-learn, and by counting pairs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.metrics.detection import eer
from asdf.tasks.tracing.source_measures import (
    REJECTIONS,
    describe_traced,
    evaluate_sources,
    rejection_scores,
)
from asdf.tasks.tracing.source_scores import SourceScores, read_source_scores, write_source_scores

CLASSES = ("A", "B", "C")


def scores_of(truths: list[str], probabilities: list[list[float]]) -> SourceScores:
    logits = np.log(np.array(probabilities))
    ids = [f"{number}.wav" for number in range(len(truths))]
    return SourceScores.of_logits(ids, "attack", CLASSES, truths, logits)


BY_HAND = scores_of(
    ["A", "A", "B", "B", "C", "X", "Y", "-"],
    [
        [0.90, 0.05, 0.05],  # right
        [0.20, 0.60, 0.20],  # called B
        [0.15, 0.80, 0.05],  # right
        [0.25, 0.50, 0.25],  # right
        [0.70, 0.10, 0.20],  # called A
        [0.55, 0.25, 0.20],  # unknown
        [0.10, 0.85, 0.05],  # unknown
        [0.98, 0.01, 0.01],  # of no class
    ],
)


def random_scores(seed: int, trials: int = 300, ties: bool = False) -> SourceScores:
    rng = np.random.default_rng(seed)
    truths = rng.choice(["A", "B", "C", "X", "-"], trials, p=[0.3, 0.3, 0.1, 0.2, 0.1]).tolist()
    logits = rng.normal(size=(trials, 3))
    for row, truth in enumerate(truths):
        if truth in CLASSES:
            logits[row, CLASSES.index(truth)] += 1.5
    if ties:
        logits = np.round(logits)
    ids = [str(number) for number in range(trials)]
    return SourceScores.of_logits(ids, "attack", CLASSES, truths, logits)


def test_values_by_hand() -> None:
    result = evaluate_sources(BY_HAND)
    assert result.confusion_KK.tolist() == [[1, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert (result.known, result.unknown, result.of_no_class) == (5, 2, 1)
    assert result.values["accuracy"] == pytest.approx(3 / 5)
    assert result.values["balanced_accuracy"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert result.values["macro_f1"] == pytest.approx((1 / 2 + 4 / 5 + 0) / 3)
    assert [entry.precision for entry in result.by_class] == [1 / 2, 2 / 3, 0]
    # Correct known trials score 0.9, 0.8, 0.5; unknown ones 0.55 and 0.85.
    assert result.values["oscr"] == pytest.approx((2 + 1 + 0) / (5 * 2))
    known, unknown = [0.9, 0.6, 0.8, 0.5, 0.7], [0.55, 0.85]
    assert result.values["unknown_eer"] == eer(known, unknown)[0] == 0.45
    rates = dict(zip(result.open.false_positive_rates, result.open.correct_rates, strict=True))
    assert rates == {0.0: 1 / 5, 0.5: 2 / 5, 1.0: 3 / 5}
    assert result.open.correct_at == (1 / 5, 1 / 5)
    assert describe_traced(BY_HAND) == ", attack: accuracy 60.00 %, unknown EER 45.00 %"
    # One unknown trial in ten is accepted at 0.5: as many as the second rate allows.
    known_NK = np.exp(BY_HAND.log_probabilities[:5]).tolist()
    unknown_NK = [[0.10, 0.85, 0.05], *[[0.34, 0.33, 0.33]] * 9]
    of_ten = scores_of([*BY_HAND.truths[:5], *"X" * 10], known_NK + unknown_NK)
    assert evaluate_sources(of_ten).open.correct_at == (1 / 5, 3 / 5)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("rejection", REJECTIONS)
def test_oscr_is_the_area_under_its_curve_and_the_proportion_of_pairs(rejection, ties) -> None:
    scores = random_scores(3, ties=ties)
    result = evaluate_sources(scores, rejection)
    curve = result.open
    area = np.trapezoid(curve.correct_rates, curve.false_positive_rates)
    assert result.values["oscr"] == pytest.approx(area, abs=1e-12)
    values = rejection_scores(scores, rejection)
    calls = [CLASSES[index] for index in scores.log_probabilities.argmax(1)]
    wins = pairs = 0.0
    for row, truth in enumerate(scores.truths):
        for other, unknown in enumerate(scores.truths):
            if truth in CLASSES and unknown == "X":
                pairs += 1
                if calls[row] == truth:
                    wins += (values[row] > values[other]) + (values[row] == values[other]) / 2
    assert result.values["oscr"] == pytest.approx(wins / pairs, abs=1e-12)


def test_rejection_scores_are_what_they_are_called() -> None:
    logits = np.random.default_rng(1).normal(size=(5, 3))
    scores = SourceScores.of_logits(list("abcde"), "attack", CLASSES, ["A"] * 5, logits)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = {
        "probability": np.log(probabilities.max(1)),
        "logit": logits.max(1),
        "energy": np.log(np.exp(logits).sum(1)),
        "entropy": (probabilities * np.log(probabilities)).sum(1),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(rejection_scores(scores, name), values, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_closed_set_is_that_of_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    scores = random_scores(seed, trials=12 if seed == 2 else 300)
    rows = [row for row, truth in enumerate(scores.truths) if truth in CLASSES]
    truths = [scores.truths[row] for row in rows]
    calls = [CLASSES[index] for index in scores.log_probabilities[rows].argmax(1)]
    result = evaluate_sources(scores)
    assert (result.confusion_KK == metrics.confusion_matrix(truths, calls, labels=CLASSES)).all()
    assert result.values["accuracy"] == pytest.approx(metrics.accuracy_score(truths, calls))
    balanced = metrics.balanced_accuracy_score(truths, calls)
    assert result.values["balanced_accuracy"] == pytest.approx(balanced)
    f1 = metrics.f1_score(truths, calls, average="macro", zero_division=0)
    assert result.values["macro_f1"] == pytest.approx(f1)


def test_intervals_hold_what_was_measured_and_follow_from_the_seed() -> None:
    scores = random_scores(5)
    result = evaluate_sources(scores, replicates=100)
    names = {"accuracy", "balanced_accuracy", "macro_f1", "unknown_eer", "oscr"}
    assert set(result.intervals) == names
    for interval in result.intervals.values():
        assert interval.low < interval.value < interval.high
    again = evaluate_sources(scores, replicates=100)
    assert again.intervals == result.intervals
    # An accuracy of n trials has a deviation of sqrt(p (1 - p) / n).
    accuracy = result.intervals["accuracy"]
    deviation = np.sqrt(accuracy.value * (1 - accuracy.value) / result.known)
    assert accuracy.high - accuracy.low == pytest.approx(2 * 1.96 * deviation, rel=0.25)


def test_whole_speakers_are_drawn() -> None:
    scores = random_scores(5)
    speakers = [str(number % 150) for number in range(300)]
    wide = evaluate_sources(scores, replicates=60, speakers=speakers)
    alone = evaluate_sources(scores, replicates=60, speakers=["one"] * 300)
    assert wide.intervals["accuracy"].low < wide.intervals["accuracy"].high
    # One trial is of an unknown source: a draw without its speaker is repeated.
    rare = replace(scores, truths=["A", "B", "C"] * 99 + ["A", "B", "X"])
    intervals = evaluate_sources(rare, replicates=60, speakers=speakers).intervals
    assert all(known.low < known.high for known in intervals.values())
    # All draws of one speaker are alike: they say nothing of other speakers.
    assert alone.intervals == {}


def test_speakers_are_drawn_only_where_all_are_known(tmp_path, capsys) -> None:
    scores = random_scores(5)
    file, protocol, out = (tmp_path / name for name in ("a.sources.tsv", "a.tsv", "a.json"))
    write_source_scores(file, scores)
    intervals = []
    for rest in ("150", ""):
        rows = [
            f"{name}\t0\t{truth}\t" for name, truth in zip(scores.ids, scores.truths, strict=True)
        ]
        speakers = [str(number % 150) for number in range(200)] + [rest] * 100
        lines = map("".join, zip(rows, speakers, strict=True))
        protocol.write_text("\n".join(["utterance\tlabel\tattack\tspeaker", *lines]))
        words = ["--protocol", str(protocol), "--replicates", "60", "--json", str(out)]
        assert main(["evaluate", str(file), *words]) == 0
        (record,) = json.loads(out.read_text())
        intervals.append(record["intervals"])
    expected = evaluate_sources(read_source_scores(file), replicates=60).intervals
    assert intervals[1] == {name: [one.low, one.high] for name, one in expected.items()}
    assert intervals[0] != intervals[1]
    file.write_text(f"{file.read_text()}x/7\tA\t0\t{np.log(0.5)}\t{np.log(0.5)}\t-99\n")
    assert main(["evaluate", str(file), *words]) == 1
    assert "scored more than once: '7', 'x/7'" in capsys.readouterr().err


def test_tracing_without_an_error_has_an_exact_bound() -> None:
    probabilities = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] * 10
    closed = scores_of(["A", "B", "C"] * 10, probabilities)
    accuracy = evaluate_sources(closed, replicates=20).intervals["accuracy"]
    # No error in 30 trials: p with (1 - p)^30 = .025.
    assert (accuracy.value, accuracy.high) == (1, 1)
    assert accuracy.low == pytest.approx(0.025 ** (1 / 30))


def test_a_set_without_unknown_trials_is_closed_and_one_of_them_alone_is_refused() -> None:
    closed = scores_of(["A", "B"], [[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]])
    result = evaluate_sources(closed, replicates=20)
    assert result.open is None and set(result.intervals) == set(result.values)
    unknown = scores_of(["X", "-"], [[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]])
    with pytest.raises(AsdfError, match="not one of the 2 trials is of a class that the network"):
        evaluate_sources(unknown)
    assert describe_traced(unknown) == "" and describe_traced(None) == ""
