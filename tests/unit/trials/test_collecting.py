"""Trials collected line by line: a repeated one is named with both of its lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.trials.table import TrialCollector, same_recording
from asdf.trials.trial_list import find_repeats


def test_what_was_added_is_what_is_returned():
    collector = TrialCollector(Path("list.txt"), ["codec"])
    collector.add(1, "b.flac", 1, ["opus"])
    collector.add(3, "a.flac", 0, [""])
    trials = collector.trials()
    assert trials.ids == ["b.flac", "a.flac"] and trials.columns == {"codec": ["opus", ""]}
    assert trials.labels.tolist() == [1, 0] and trials.labels.dtype == np.int8


def test_equal_values_share_one_string():
    collector = TrialCollector(Path("list.txt"), ["codec"])
    collector.add(1, "a", 1, ["op" + "us".lower()])
    collector.add(2, "b", 1, ["".join(["op", "us"])])
    values = collector.trials().columns["codec"]
    assert values[0] is values[1]


def test_a_repeated_trial_is_named_by_its_lines_not_by_its_index():
    collector = TrialCollector(Path("list.txt"))
    for line, utterance, label in ((2, "a", 1), (5, "b", 0), (9, "./a", 0), (11, "b", 0)):
        collector.add(line, utterance, label)
    with pytest.raises(AsdfError) as caught:
        collector.trials()
    assert str(caught.value) == (
        "list.txt, line 9: './a' is already in line 2 as 'a' (2 lines repeat an utterance). Every "
        "trial counts once: remove the repeated lines. Some of them have both labels, one of which "
        "is wrong."
    )


def test_no_trial():
    with pytest.raises(AsdfError, match=r"list\.txt: no trials found"):
        TrialCollector(Path("list.txt")).trials()


def test_every_repeat_has_the_first_of_its_name():
    assert find_repeats(["a", "b", "c"]) is None and find_repeats([]) is None
    repeats = find_repeats(["a", "b", "a", "a", "b"])
    assert repeats is not None
    assert (repeats.indices, repeats.earlier) == ([2, 3, 4], [0, 0, 1])


def test_spellings_of_one_path():
    assert [same_recording(path) for path in ("a//b", "./a/b", "c/../a/b", "a/b")] == ["a/b"] * 4
    assert same_recording("a.b/c") == "a.b/c"
