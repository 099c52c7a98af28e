"""Score files and a protocol: what agrees is joined, what does not is counted and named."""

import re

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.trials.matching import read_matched
from asdf.trials.trial_list import TrialList

TRIALS = TrialList(["my take 1", "LA_2", "LA_3"], np.array([1, 0, 1]))
ALL = "my take 1 1\nLA_2 1\nLA_3 1\n"
SWAPPED = "LA_2 1 1\nLA_3 0 1\n"


def _read(tmp_path, text, trials=TRIALS, **options):
    path = tmp_path / "scores.txt"
    path.write_text(text)
    return read_matched(path, trials, **options)


@pytest.mark.parametrize(
    "text",
    [
        "my take 1 0.5\nLA_3 2\nLA_2 -1\n",
        "filename\tcm-score\nmy take 1\t0.5\nLA_3\t2\nLA_2\t-1\n",
        "filename cm-score\nmy take 1 0.5\nLA_3 2\nLA_2 -1\n",
        "a/my take 1.wav 1 0.5\nflac/LA_3.flac 1 2\nflac/LA_2.flac 0 -1\n",
        "my take 1 - bonafide 0.5\nLA_3 - bonafide 2\nLA_2 A07 spoof -1\n",
    ],
)
def test_every_format_gives_the_same(tmp_path, text):
    scores, left_out = _read(tmp_path, text)
    assert scores.labels.tolist() == [1, 1, 0]
    assert scores.scores.tolist() == [0.5, 2, -1]
    assert [TRIALS.index_of(utterance) for utterance in scores.ids] == [0, 2, 1]
    assert scores.attacks == (["-", "-", "A07"] if "A07" in text else None)
    assert left_out == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "my take 1 0.5\nLA_2 0.1\n",
            "1 of the 3 trials of the protocol have no score: 'LA_3'. Was",
        ),
        (f"{ALL}LA_4 1\nx 1\n", "2 of 5 scored trials are not in the protocol: 'LA_4', 'x'."),
        (f"{ALL}LA_2 1\nLA_3 1\n", "line 4: 'LA_2' was already scored in line 2 (2 of 5 lines"),
        (
            f"{ALL}b/LA_3.wav 1\n",
            "1 trials of the protocol are scored more than once: 'LA_3', 'b/L",
        ),
        ("my take 1 1\nLA_2 nan\nLA_3 1\n", "line 2: the score of 'LA_2' is nan"),
        (f"my take 1.wav 1 1\n{SWAPPED}", "2 of 3 trials are labelled differently in the protocol"),
        (f"my take 1.wav 1 1\n{SWAPPED}", ": 'LA_2', 'LA_3'. Do"),
        (f"my take 1.wav 0 1\n{SWAPPED}", "All of them: does 1 mean spoof in one of the two?"),
    ],
)
def test_what_does_not_agree_is_counted_and_named(tmp_path, text, message):
    with pytest.raises(AsdfError, match=re.escape(message)):
        _read(tmp_path, text)


def test_others_are_left_out_when_requested(tmp_path):
    text = "x 7\nLA_2 1\ny 8\nLA_3 2\nmy take 1 3\n"
    scores, left_out = _read(tmp_path, text, ignore_others=True)
    assert scores.ids == ["LA_2", "LA_3", "my take 1"]
    assert (scores.scores.tolist(), left_out) == ([1, 2, 3], 2)
    with pytest.raises(AsdfError, match="1 of the 3 trials of the protocol have no score"):
        _read(tmp_path, "x 7\nLA_2 1\nLA_3 2\n", ignore_others=True)


def test_trials_of_other_subsets_are_left_out_and_strangers_are_not(tmp_path):
    part = TrialList(TRIALS.ids[1:], TRIALS.labels[1:])
    scores, left_out = _read(tmp_path, "LA_2 1\nmy take 1 5\nLA_3 2\n", part, whole=TRIALS)
    assert (scores.ids, left_out) == (["LA_2", "LA_3"], 1)
    with pytest.raises(AsdfError, match="1 of 4 scored trials are not in the protocol: 'x'"):
        _read(tmp_path, "LA_2 1\nmy take 1 5\nLA_3 2\nx 1\n", part, whole=TRIALS)


def test_recordings_of_one_name_in_two_folders(tmp_path):
    whole = TrialList(["x/a.flac", "y/a.flac", "x/b.flac", "y/b.flac"], np.array([1, 0, 0, 1]))
    part = TrialList(whole.ids[::2], whole.labels[::2])
    text = "y/a.flac 9\nx/b.flac -1\nx/a.flac 1\ny/b.flac 8\n"
    scores, left_out = _read(tmp_path, text, part, whole=whole)
    assert (scores.ids, scores.scores.tolist(), left_out) == (["x/b.flac", "x/a.flac"], [-1, 1], 2)
    assert _read(tmp_path, text, part, ignore_others=True)[0].ids == scores.ids


def test_one_class_alone(tmp_path):
    with pytest.raises(AsdfError, match="none of the 1 trials is bona fide"):
        _read(tmp_path, "LA_2 1\n", TrialList(["LA_2"], np.array([0])))
