"""Out-of-fold scores, the gain and its test."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from asdf.metrics.bootstrap import paired_test
from asdf.metrics.detection import cllr
from asdf.metrics.fusion import fit_fusion
from asdf.metrics.results import evaluate
from asdf.tasks.fusion.gain import make_folds, measure_gain
from asdf.trials.score_file import Scores

RNG = np.random.default_rng(6)
LABELS = np.repeat([1, 0], [80, 160]).astype(np.int8)
IDS = [f"u{index}" for index in range(240)]
SCORES = RNG.normal(size=(240, 3)) + LABELS[:, None] * (1.0, 1.4, 0.8)
SYSTEMS = [Scores(IDS, LABELS, column) for column in SCORES.T]
SPEAKERS = [f"s{index % 12}" for index in range(240)]
FOLDS = make_folds(IDS, LABELS, SPEAKERS, 4)


def test_no_trial_is_fused_by_weights_that_saw_it():
    """Against scikit-learn, fold by fold."""
    measured = measure_gain(SYSTEMS, "abc", "logistic", FOLDS, replicates=0)
    expected = np.empty(240)
    folds = FOLDS
    for fold in range(4):
        model = LogisticRegression(C=np.inf, class_weight="balanced", tol=1e-12, max_iter=10_000)
        model.fit(SCORES[folds != fold], LABELS[folds != fold])
        expected[folds == fold] = model.decision_function(SCORES[folds == fold])
    np.testing.assert_allclose(measured.llrs.scores, expected, rtol=1e-3, atol=1e-4)
    assert measured.fusion == fit_fusion("logistic", SCORES, LABELS)
    assert len(measured.members[0].fold_weights) == 4


@pytest.mark.parametrize("method", ["logistic", "mean", "rank"])
def test_the_gain_is_that_of_the_paired_test(method):
    drawn = {"speakers": SPEAKERS, "replicates": 100, "seed": 1}
    measured = measure_gain(SYSTEMS, "abc", method, FOLDS, **drawn)
    assert measured.members[measured.best].name == "b"
    assert measured.result == evaluate(measured.llrs)
    assert measured.gain == paired_test(SYSTEMS[1], measured.llrs, **drawn)
    assert measured.gain.eer.value == measured.result.eer - measured.members[1].result.eer
    # Three independent systems are better than any of them, and their LLRs mean something.
    assert measured.result.eer < measured.members[1].result.eer
    assert measured.result.cllr < min(member.cllr for member in measured.members) < 1


def test_a_system_turned_round_has_no_cllr_by_itself():
    turned = [SYSTEMS[0], Scores(IDS, LABELS, -SYSTEMS[1].scores)]
    measured = measure_gain(turned, "ab", "logistic", FOLDS, replicates=0)
    assert measured.members[1].cllr is None
    assert measured.members[1].weight < 0
    right = measure_gain(SYSTEMS[:2], "ab", "logistic", FOLDS, replicates=0)
    np.testing.assert_allclose(measured.llrs.scores, right.llrs.scores, rtol=1e-9)


def test_cllr_of_a_system_is_calibrated_on_the_other_folds():
    measured = measure_gain(SYSTEMS[:2], "ab", "logistic", FOLDS, replicates=0)
    # Nothing is lost by calibration on other speakers here but a little.
    scale_free = measured.members[0].cllr
    assert cllr(SYSTEMS[0].bona_fide, SYSTEMS[0].spoof) > scale_free
