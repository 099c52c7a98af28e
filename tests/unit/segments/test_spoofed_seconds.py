"""The spoofed parts of a recording and the column that holds them."""

import math

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.segments import (
    COLUMN,
    WHOLE,
    Segment,
    clipped,
    format_spoofed,
    merged,
    parse_spoofed,
    spoofed_parts,
    spoofed_parts_of,
)
from asdf.trials.table import read_trials, write_trials
from asdf.trials.trial_list import TrialList, join

TWO = (Segment(0.69, 1.26), Segment(3.43, 4.1))


def listed(*values: str, labels: tuple[int, ...]) -> TrialList:
    names = [f"{number}.flac" for number in range(len(values))]
    return TrialList(names, np.array(labels), columns={COLUMN: list(values)}, name="demo")


def test_parts_are_written_as_they_are_read():
    assert format_spoofed(TWO) == "0.69-1.26 3.43-4.1"
    assert parse_spoofed("0.69-1.26 3.43-4.1") == TWO
    assert format_spoofed(()) == "-"
    assert parse_spoofed("-") == ()
    assert format_spoofed(WHOLE) == ""
    assert parse_spoofed("") == WHOLE


def test_any_number_comes_back_to_the_last_bit():
    # repr would write the first as 1e-05, whose sign separates start and end.
    for start_s in (1e-05, 0.1 + 0.2, 1 / 3, 123456.7):
        parts = (Segment(start_s, start_s + 1 / 7),)
        assert parse_spoofed(format_spoofed(parts)) == parts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0.69", "not a part in seconds"),
        ("a-b", "not a part in seconds"),
        ("-1-2", "not a part in seconds"),
        ("nan-inf", "not a part in seconds"),
        ("1-2  3-4", "not a part in seconds"),
        ("2-1", "must ascend"),
        ("1-1", "must ascend"),
        ("3-4 1-2", "must ascend"),
        ("1-2 2-3", "must ascend"),
    ],
)
def test_other_values_are_refused(text: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        parse_spoofed(text)


def test_parts_that_touch_or_overlap_are_one_and_empty_ones_none():
    parts = [Segment(3, 4), Segment(1, 2), Segment(2, 2.5), Segment(5, 5), Segment(3.5, 3.6)]
    assert merged(parts) == (Segment(1, 2.5), Segment(3, 4))


def test_parts_end_with_the_recording():
    assert clipped(TWO, 3.5) == (Segment(0.69, 1.26), Segment(3.43, 3.5))
    assert clipped(TWO, 3.43) == (Segment(0.69, 1.26),)
    assert clipped(WHOLE, 2.5) == (Segment(0, 2.5),)


def test_a_bona_fide_trial_has_none_and_a_spoof_without_any_is_spoofed_as_a_whole():
    trials = listed("-", "", "0.69-1.26 3.43-4.1", "", labels=(1, 1, 0, 0))
    assert spoofed_parts_of(trials) == [(), (), TWO, WHOLE]
    assert WHOLE[0].end_s == math.inf


def test_a_list_without_the_column_has_spoofs_as_a_whole():
    trials = TrialList(["a", "b"], np.array([1, 0]))
    assert spoofed_parts_of(trials) == [(), WHOLE]


@pytest.mark.parametrize(
    ("value", "label", "reason"),
    [
        ("0.5-1", 1, "labelled bona fide"),
        ("-", 0, "labelled spoof"),
        ("0.5", 0, "not a part in seconds"),
    ],
)
def test_a_value_that_contradicts_its_trial_is_an_error_that_names_it(value, label, reason):
    with pytest.raises(AsdfError, match=reason) as caught:
        spoofed_parts(listed(value, labels=(label,)), 0)
    assert "demo, trial '0.flac'" in str(caught.value)


def test_parts_survive_the_table_the_selection_and_the_join(tmp_path):
    trials = listed("-", "0.69-1.26 3.43-4.1", labels=(1, 0))
    write_trials(tmp_path / "table.tsv", trials)
    again = read_trials(tmp_path / "table.tsv")
    assert spoofed_parts_of(again.select(np.array([1, 0]))) == [TWO, ()]
    other = TrialList(["x"], np.array([0]), name="other")
    assert spoofed_parts_of(join([trials, other])) == [(), TWO, WHOLE]
