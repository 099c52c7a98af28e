"""In corpora without any difference of the classes, an audit finds something at the stated rate."""

from dataclasses import replace

import numpy as np
import pytest

from asdf.extras.audit.auditing import audit_recordings
from asdf.extras.audit.detectors import make_folds, permutation_tests, score_feature
from asdf.extras.audit.measuring import Measured
from asdf.metrics.intervals import holm
from asdf.trials.trial_list import TrialList
from tests.extras.audit.conftest import QUICK

NUMBERS = ("duration", "leading_silence", "level", "noise_floor", "bandwidth", "zeros")
WORDS = ("format", "sample_rate", "bits")
CORPORA = 150


def clean_corpus(rng: np.random.Generator, count: int) -> tuple[TrialList, list[Measured]]:
    """Return trials whose features follow their speakers, and not their labels."""
    speakers = rng.integers(12, size=count)
    levels = rng.normal(size=(12, len(NUMBERS)))
    measured = []
    for speaker in speakers:
        values: dict[str, float | str] = {}
        for column, name in enumerate(NUMBERS):
            values[name] = float(levels[speaker, column] + rng.normal())
        for name in WORDS:
            values[name] = str(rng.integers(3))
        measured.append(Measured(values, digest=str(rng.random())))
    labels = (rng.uniform(size=count) < 0.4).astype(np.int8)
    columns = {"speaker": [f"s{speaker}" for speaker in speakers]}
    ids = [f"{index:06}.wav" for index in range(count)]
    return TrialList(ids, labels, columns=columns, name="clean"), measured


@pytest.mark.slow
def test_clean_corpora_have_findings_at_most_at_the_stated_rate() -> None:
    rng = np.random.default_rng(3)
    found = 0
    options = replace(QUICK, limit=0.5, permutations=399)
    for _ in range(CORPORA):
        trials, measured = clean_corpus(rng, 120)
        audit = audit_recordings([trials], [measured], options)
        found += bool(audit.shortcuts)
    # 5 % of 150 are 7.5; 14 or more have a probability below 2 %.
    assert found < 14


def test_one_corpus_without_differences_has_no_finding() -> None:
    trials, measured = clean_corpus(np.random.default_rng(1), 200)
    assert audit_recordings([trials], [measured], QUICK).is_clean


def test_a_feature_that_is_the_label_is_as_rare_as_there_are_permutations() -> None:
    labels = np.arange(60) % 2 == 0
    speakers = [f"s{index // 6}" for index in range(60)]
    same, other = labels.astype(np.intp), np.random.default_rng(0).integers(2, size=60)
    told, untold = permutation_tests([same, other], labels, speakers, 199)
    assert told == pytest.approx(1 / 200)
    assert untold > 0.05


def test_voices_of_one_class_are_no_proof_by_themselves() -> None:
    """Ten recordings each of three voices that are bona fide and three that are spoofed."""
    labels = np.repeat([True, False], 30)
    speakers = [f"s{index // 10}" for index in range(60)]
    levels = np.repeat([0, 1, 1, 0, 0, 1], 10).astype(np.intp)
    (as_blocks,) = permutation_tests([levels], labels, speakers, 199)
    (freely,) = permutation_tests([levels], labels, None, 199)
    assert as_blocks > 0.3
    assert freely < 0.05


def test_p_values_of_several_tests_are_those_of_holm() -> None:
    # The example of R's p.adjust: 0.01 * 4, max(0.02 * 3, ...), 0.03 * 2, 0.04.
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.04, 0.01]) == pytest.approx([0.04, 0.02])


def test_no_fold_holds_a_part_of_a_speaker() -> None:
    groups = ["a"] * 50 + ["b"] * 20 + ["c"] * 20 + ["d"] * 10
    folds = make_folds(groups)
    assert {len(set(folds[np.array(groups) == name].tolist())) for name in "abcd"} == {1}
    assert sorted(np.bincount(folds).tolist()) == [10, 20, 20, 50]


def test_the_ratio_of_a_word_is_that_of_the_other_folds() -> None:
    values = ["x", "x", "y", "y", "x", "z"]
    labels = np.array([1, 1, 0, 0, 0, 1], np.bool_)
    folds = np.array([0, 0, 0, 0, 1, 1])
    scores = score_feature(values, labels, folds)
    # In fold 0: x is of two bona fide and no spoof recording, half a recording added to each.
    assert scores[4] == pytest.approx(np.log((2.5 / 3) / (0.5 / 3)), abs=1e-8)
    assert scores[5] == pytest.approx(0, abs=1e-8)
