"""The spoofed parts of a recording and the column that holds them."""

import math

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.segments import (
    COLUMN,
    WHOLE,
    Segment,
    clipped,
    format_spoofed,
    frame_count,
    frame_labels,
    labels_of_mask,
    merged,
    parse_spoofed,
    segments_from_scores,
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
    # As in a list without the column.
    assert spoofed_parts_of(TrialList(["a", "b"], np.array([1, 0]))) == [(), WHOLE]


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


def test_every_sample_is_in_one_frame():
    assert [frame_count(samples, 320) for samples in (0, 1, 320, 321, 640)] == [0, 1, 1, 2, 2]


def test_a_frame_is_spoofed_if_any_sample_of_it_is():
    # Frames of 20 ms begin at 0, .02, .04, .06, .08; the part begins and ends inside two of them.
    labels = frame_labels([Segment(0.0201, 0.0601)], 1600, 320)
    assert labels.tolist() == [1, 0, 0, 0, 1]
    one_sample = frame_labels([Segment(0.04 - 1 / 16000, 0.04)], 1600, 320)
    assert one_sample.tolist() == [1, 0, 1, 1, 1]


def test_a_part_that_ends_where_a_frame_does_is_not_in_the_next_one():
    # In floating point 0.58 / 0.02 is 28.999999999999996 and 0.14 / 0.02 is 7.000000000000001.
    labels = frame_labels([Segment(0.14, 0.58)], 16000, 320)
    assert np.flatnonzero(labels == 0).tolist() == list(range(7, 29))


def test_the_last_frame_may_be_shorter_and_parts_end_with_the_recording():
    assert frame_labels([Segment(0.02, 9)], 330, 320).tolist() == [1, 0]
    assert frame_labels([Segment(0.03, 9)], 330, 320).tolist() == [1, 1]
    assert frame_labels(WHOLE, 641, 320).tolist() == [0, 0, 0]
    assert frame_labels([], 641, 320).tolist() == [1, 1, 1]
    assert frame_labels(WHOLE, 0, 320).tolist() == []
    with pytest.raises(UsageError, match="hop_samples = 0: a frame has 1 sample or more"):
        frame_labels(WHOLE, 641, 0)


def test_labels_of_different_resolutions_do_not_contradict_each_other():
    rng = np.random.default_rng(0)
    for _ in range(20):
        edges = np.sort(rng.uniform(0, 4, 6)).reshape(3, 2)
        spoofed = [Segment(*edge) for edge in edges.tolist()]
        fine = frame_labels(spoofed, 61_234, 160)
        for times in (2, 3, 16):
            coarse = frame_labels(spoofed, 61_234, 160 * times)
            starts = np.arange(0, len(fine), times)
            assert coarse.tolist() == np.minimum.reduceat(fine, starts).tolist()


def test_a_mask_per_sample_gives_the_same_labels():
    rng = np.random.default_rng(1)
    edges = np.sort(rng.uniform(0, 3, 8)).reshape(4, 2)
    spoofed = [Segment(*edge) for edge in edges.tolist()]
    mask = np.zeros(40_001, bool)
    for start_s, end_s in spoofed:
        mask[round(start_s * 16000) : round(end_s * 16000)] = True
    for hop in (1, 160, 320, 1000, 50_000):
        assert labels_of_mask(mask, hop).tolist() == frame_labels(spoofed, 40_001, hop).tolist()
    assert labels_of_mask(mask[:0], 320).tolist() == []


def test_runs_of_frames_below_the_threshold_are_parts():
    scores = [0.5, -1, -1, 0.5, 0.49, 0.6, -3]
    assert segments_from_scores(scores, 0.02, 0.5) == (
        Segment(0.02, 0.06),
        Segment(0.08, 0.1),
        Segment(0.12, 0.14),
    )
    assert segments_from_scores(scores, 0.02, -9) == ()
    assert segments_from_scores(scores, 0.02, 9) == (Segment(0.0, 0.14),)
    assert segments_from_scores([], 0.02, 9) == ()
    with pytest.raises(AsdfError, match="NaN"):
        segments_from_scores([0.0, float("nan")], 0.02, 0)


def test_the_last_part_ends_with_the_recording_and_short_ones_are_left_out():
    scores = [-1, 1, -1, -1]
    assert segments_from_scores(scores, 0.02, 0, duration_s=0.075) == (
        Segment(0, 0.02),
        Segment(0.04, 0.075),
    )
    assert segments_from_scores(scores, 0.02, 0, min_s=0.03) == (Segment(0.04, 0.08),)
    # A frame that lies behind the end altogether.
    assert segments_from_scores(scores, 0.02, 0, duration_s=0.04) == (Segment(0, 0.02),)


def test_marked_frames_come_back_as_their_own_labels():
    rng = np.random.default_rng(2)
    scores = rng.standard_normal(500)
    parts = segments_from_scores(scores, 0.02, 0.1)
    assert frame_labels(parts, 500 * 320, 320).tolist() == (scores >= 0.1).astype(int).tolist()
