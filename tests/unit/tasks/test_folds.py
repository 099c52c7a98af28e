"""Folds hold speakers together, both classes in each, whatever the order of the trials."""

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.tasks.fusion.gain import make_folds

LABELS = np.repeat([1, 0], [20, 60]).astype(np.int8)
IDS = [f"u{index}" for index in range(80)]


def test_each_fold_has_its_share_of_both_classes():
    folds = make_folds(IDS, LABELS, count=5)
    assert np.bincount(folds[LABELS == 1]).tolist() == [4] * 5
    assert np.bincount(folds[LABELS == 0]).tolist() == [12] * 5


def test_the_order_of_the_file_does_not_count_and_the_seed_does():
    folds = make_folds(IDS, LABELS, count=5, seed=3)
    order = np.random.default_rng(0).permutation(80)
    shuffled = make_folds([IDS[index] for index in order], LABELS[order], count=5, seed=3)
    np.testing.assert_array_equal(shuffled, folds[order])
    assert not np.array_equal(folds, make_folds(IDS, LABELS, count=5, seed=4))


def test_a_speaker_is_in_one_fold():
    speakers = [f"s{index % 8}" for index in range(80)]
    folds = make_folds(IDS, LABELS, speakers, count=4)
    of_speaker = {}
    for speaker, fold in zip(speakers, folds.tolist(), strict=True):
        of_speaker.setdefault(speaker, set()).add(fold)
    assert all(len(own) == 1 for own in of_speaker.values())
    assert np.bincount(folds).tolist() == [20] * 4


def test_speakers_of_one_class_are_spread():
    """Four speakers are only bona fide, six are only spoofed."""
    speakers = [f"b{index % 4}" for index in range(20)] + [f"s{index % 6}" for index in range(60)]
    folds = make_folds(IDS, LABELS, speakers, count=2)
    assert np.bincount(folds[LABELS == 1]).tolist() == [10, 10]
    assert np.bincount(folds[LABELS == 0]).tolist() == [30, 30]


def test_too_few_speakers_are_refused():
    speakers = ["only"] * 20 + ["other", "third"] * 30
    with pytest.raises(AsdfError, match="without one of 3 folds of speakers no trial is bona fide"):
        make_folds(IDS, LABELS, speakers, count=5)
