"""Scores that users get wrong are recognised, and sound ones are left in peace."""

import numpy as np
import pytest

from asdf.evaluation import check_scores, eer, tied_proportion
from asdf.metrics.score_checks import another_subset

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 2000)
SCORES = (RNG.normal(0, 1, 2000) + 3 * LABELS - 1.5).astype(np.float32)


def _only(findings):
    assert len(findings) == 1
    return findings[0].level, findings[0].message


def test_sound_scores_and_those_of_a_network_that_knows_nothing():
    assert check_scores(LABELS, SCORES) == check_scores(LABELS, RNG.normal(0, 1, 2000)) == []


def test_turned_round():
    level, message = _only(check_scores(LABELS, -SCORES))
    right = eer(SCORES[LABELS == 1], SCORES[LABELS == 0])[0]
    wrong = eer(-SCORES[LABELS == 1], -SCORES[LABELS == 0])[0]
    assert level == "warning"
    rates = f"EER is {100 * wrong:.2f} %, that of the negated scores {100 * right:.2f} %"
    assert rates in message


@pytest.mark.parametrize(("label", "missing"), [(0, "bona fide"), (1, "spoof")])
def test_one_class(label, missing):
    level, message = _only(check_scores([label] * 3, [1, 2, 3]))
    assert level == "error"
    assert message.startswith(f"all 3 trials are of one class, none is {missing}.")


def test_not_finite():
    scores = SCORES.copy()
    scores[[7, 9]] = np.nan, np.inf
    assert _only(check_scores(LABELS, scores)) == (
        "error",
        "2 of 2000 scores are NaN or infinite, the first one at trial 8. "
        "Score in fp32, with a network that did not diverge.",
    )
    _, message = _only(check_scores(LABELS, scores, [f"u{i}" for i in range(2000)]))
    assert "the first one of 'u7'" in message


def test_both_errors_and_no_trial():
    assert [finding.level for finding in check_scores([1, 1], [1, np.nan])] == ["error", "error"]
    message = "there are no trials. Was the scoring interrupted?"
    assert _only(check_scores([], [])) == ("error", message)


def test_saturated_softmax():
    saturated = 1 / (1 + np.exp(-8 * SCORES))
    level, message = _only(check_scores(LABELS, saturated))
    assert level == "warning"
    assert f"{100 * tied_proportion(saturated):.1f} % of the trials share their score" in message
    assert int((saturated == 1).sum()) > 100
    assert f"{(saturated == 1).sum()} of them the score 1." in message


def test_ties_that_decide_are_reported_with_their_range():
    """Of the order of ties alone: bona fide first gives 1/2, spoof first 0."""
    _, message = _only(check_scores([1, 1, 0, 0], [0, 1, 0, -1]))
    assert "50.0 % of the trials share" in message
    assert "between 0.00 % and 50.00 %" in message


def test_few_ties_of_pairs_are_normal():
    scores = SCORES.copy()
    far = np.flatnonzero(SCORES > 2)[:20]
    scores[far[:10]] = scores[far[10:]]
    assert tied_proportion(scores) == pytest.approx(20 / 2000)
    assert check_scores(LABELS, scores) == []


def test_constant_scores():
    assert _only(check_scores([1, 0, 0], [0.5, 0.5, 0.5])) == (
        "warning",
        "all 3 scores are 0.5: the network cannot tell trials apart. Did the training diverge?",
    )


def test_tied_proportion():
    assert tied_proportion([1, 1, 2, 3, 3, 3, 4, 5]) == 5 / 8
    assert tied_proportion([1, 2, 3]) == 0


def test_chance_is_not_turned_round():
    """EER 52.5 % against 47.5 % on 40 + 40 trials is what a coin gives."""
    labels = np.repeat([1, 0], 40)
    scores = np.empty(80)
    scores[:40] = np.r_[np.arange(19), np.arange(30, 51)] * 2.0
    scores[40:] = np.r_[np.arange(21), np.arange(30, 49)] * 2.0 + 1
    assert eer(-scores[:40], -scores[40:])[0] == 0.525
    assert eer(scores[:40], scores[40:])[0] == 0.475
    assert check_scores(labels, -scores) == []


@pytest.mark.parametrize(("count", "warned"), [(40, False), (4000, True)])
def test_turned_round_is_said_where_it_is_significant(count, warned):
    """Bona fide trials score a little lower; 4,000 of each class make that certain, 40 do not."""
    rng = np.random.default_rng(3)
    labels = np.repeat([1, 0], count)
    scores = rng.normal(0, 1, 2 * count) - 0.15 * labels
    bona_fide, spoof = scores[labels == 1], scores[labels == 0]
    assert eer(bona_fide, spoof)[0] - eer(-bona_fide, -spoof)[0] > 0.02
    messages = [finding.message for finding in check_scores(labels, scores)]
    assert [("rank test, p = " in message) for message in messages] == [True] * warned


@pytest.mark.parametrize(
    ("trials", "what", "published"),
    [
        (181_566, "as many as ASVspoof 2021 LA has in all subsets", "148,176"),
        (16_926, "as many as ASVspoof 2021 LA has in hidden", "148,176"),
        (611_829, "as many as ASVspoof 2021 DF has in all subsets", "533,928"),
        (59_325, "as many as ASVspoof 2021 DF has in progress", "533,928"),
    ],
)
def test_other_subsets_than_published_numbers_are_of(trials, what, published):
    (finding,) = another_subset(trials)
    assert finding.level == "warning"
    assert what in finding.message
    assert f"({published} trials)" in finding.message


@pytest.mark.parametrize("trials", [148_176, 533_928, 71_237, 680_774, 1000])
def test_other_sizes_are_left_in_peace(trials):
    assert another_subset(trials) == []
