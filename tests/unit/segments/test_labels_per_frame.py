"""Labels per frame from spoofed parts, and parts from scores."""

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.segments import (
    WHOLE,
    Segment,
    frame_count,
    frame_labels,
    labels_of_mask,
    segments_from_scores,
)


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


def test_a_hop_of_no_sample_is_refused():
    with pytest.raises(ValueError, match="at least one sample"):
        frame_labels(WHOLE, 10, 0)


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


def test_scores_that_are_no_number_are_an_error():
    with pytest.raises(AsdfError, match="NaN"):
        segments_from_scores([0.0, float("nan")], 0.02, 0)
