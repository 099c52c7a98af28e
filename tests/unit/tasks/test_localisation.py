"""Metrics of frame scores against hand-computed values and the numbers of another system."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.metrics.detection import DetCurve
from asdf.metrics.intervals import rate_interval
from asdf.segments import COLUMN, WHOLE, Segment, frame_table, merged, write_frame_table
from asdf.settings import Sections
from asdf.tasks.localisation.located_measures import (
    Agreement,
    LocatedRecording,
    agreement_of,
    localisation,
    localisation_intervals,
    pooled_stretches,
    range_eer,
)
from asdf.tasks.localisation.task import Localisation as Task
from asdf.training.task import ScoredSet
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList

# 30 recordings with the range EER that WeDefense's code computes of them, in bins of scores.
REFERENCE = Path(__file__).parents[2] / "fixtures" / "localisation.npz"


def located(scores, spoofed, duration_s, hop_s=0.02):
    return LocatedRecording(np.array(scores), hop_s, spoofed, duration_s)


def reference_recordings() -> list[LocatedRecording]:
    with np.load(REFERENCE) as data:
        frames = data["frames"]
        segments = data["segments"]
    recordings = []
    for number in range(30):
        parts = segments[segments[:, 0] == number]
        spoofed = merged(Segment(*part[1:3]) for part in parts.tolist() if part[3] == 0)
        scores = frames[frames[:, 0] == number, 2]
        recordings.append(LocatedRecording(scores, 0.02, spoofed, float(parts[-1, 2])))
    return recordings


def test_the_range_eer_is_that_of_the_other_system():
    with np.load(REFERENCE) as data:
        fine = float(data["range_eer_resolution_1000000"])
        coarse = float(data["range_eer_resolution_8000"])
        threshold = float(data["range_threshold_1000000"])
    result = range_eer(pooled_stretches(reference_recordings()))
    assert result.rate == pytest.approx(fine, abs=1e-13)
    assert result.rate == pytest.approx(coarse, abs=1e-13)
    # The other system names the lower edge of a bin, which is 2e-5 wide.
    assert result.threshold == pytest.approx(threshold, abs=2e-5)


def test_the_point_eer_is_that_of_the_other_system():
    with np.load(REFERENCE) as data:
        frames = data["frames"]
        expected = float(data["point_eer"])
    # Its labels are those at the frames' centres, which the file states.
    is_bona_fide = frames[:, 3] == 1
    eer, _ = DetCurve.of(frames[is_bona_fide, 2], frames[~is_bona_fide, 2]).eer()
    assert eer == expected
    # By our rule some of the frames that straddle a boundary are spoofed instead.
    result = localisation(reference_recordings())
    assert result.points[0].eer == pytest.approx(expected, abs=2e-3)
    assert result.points[0].bona_fide + result.points[0].spoof == len(frames)
    assert result.points[0].spoof > int((~is_bona_fide).sum())


def test_frames_are_cut_where_parts_begin_and_the_last_one_at_the_end():
    recording = located([1, 2, 3], (Segment(0.01, 0.03),), 0.05)
    stretches = pooled_stretches([recording])
    assert stretches.scores.tolist() == [1, 1, 2, 2, 3]
    assert stretches.is_bona_fide.tolist() == [True, False, False, True, True]
    assert stretches.seconds == pytest.approx([0.01] * 5)


@pytest.mark.parametrize(("frames", "last_s"), [(2, 0.035), (3, 0.015), (4, 0.015)])
def test_the_last_frame_reaches_to_the_end(frames: int, last_s: float):
    # Of 0.055 s: a frame too few is stretched, one that begins behind the end does not count.
    stretches = pooled_stretches([located([1.0, 2.0, 3.0, 4.0][:frames], (), 0.055)])
    assert stretches.seconds.sum() == pytest.approx(0.055)
    assert stretches.seconds[-1] == pytest.approx(last_s)
    assert len(stretches.scores) == min(frames, 3)


def test_a_hand_computed_range_eer():
    # Bona fide: 0.2 s at 0, 0.8 s at 1. Spoof: 0.9 s at -1, 0.1 s at 1.
    bona_fide = located([0, 1], (), 1.0, hop_s=0.2)
    spoof = located([-1, -1, 1], WHOLE, 1.0, hop_s=0.45)
    result = range_eer(pooled_stretches([bona_fide, spoof]))
    # Rejecting -1: miss 0, false alarm 0.1. Rejecting 0 too: miss 0.2, false alarm 0.1.
    assert result.rate == pytest.approx(0.05)
    assert result.threshold == -1


def test_of_two_points_that_are_equally_close_rounding_decides_as_ever():
    # Bona fide at 1, 4 and 8: the rates cross between 3 (miss 1/3, false alarm 1/2) and 4 (2/3,
    # 1/2), which are as close.
    parts = [() if score in (1, 4, 8) else WHOLE for score in range(9)]
    recordings = [located([score], spoofed, 0.1, 0.1) for score, spoofed in enumerate(parts)]
    result = range_eer(pooled_stretches(recordings))
    assert (result.rate, result.threshold) == (pytest.approx(7 / 12), 4)


def test_equal_scores_are_rejected_together():
    bona_fide = located([0, 1], (), 0.04)
    spoof = located([0, -1], WHOLE, 0.04)
    result = range_eer(pooled_stretches([bona_fide, spoof]))
    # Between the two zeros there is no threshold: miss 0 with false alarm .5, or .5 with 0.
    assert result.rate == pytest.approx(0.25)


def test_durations_of_whole_recordings_weigh_as_frames_do():
    rng = np.random.default_rng(0)
    bona_fide = rng.normal(1, 1, 300)
    spoof = rng.normal(-1, 1, 500)
    result = localisation([located(bona_fide, (), 6.0), located(spoof, WHOLE, 10.0)])
    eer, threshold = DetCurve.of(bona_fide, spoof).eer()
    assert result.range_eer.rate == pytest.approx(eer)
    assert result.range_eer.threshold == threshold
    assert (result.points[0].eer, result.points[0].eer_threshold) == (eer, threshold)
    assert result.bona_fide_s == pytest.approx(6) and result.spoof_s == pytest.approx(10)
    # At the threshold of the EER: false alarms of F1 are bona fide time that is marked.
    share = (result.agreement.false_alarms / 6 + result.agreement.misses / 10) / 2
    assert share == pytest.approx(eer)


def test_f1_and_intersection_over_union_at_a_threshold():
    # Frames of 20 ms over 0.1 s; spoofed 0.03 to 0.07; marked (below 0) the second and third.
    recording = located([1, -1, -1, 0, 2], (Segment(0.03, 0.07),), 0.1)
    result = localisation([recording], threshold=0)
    # In seconds: marked 0.02 to 0.06, of which 0.03 to 0.06 is spoofed.
    assert result.agreement.hits == pytest.approx(0.03)
    assert result.agreement.false_alarms == pytest.approx(0.01)
    assert result.agreement.misses == pytest.approx(0.01)
    assert result.agreement.iou == pytest.approx(0.6)
    assert result.agreement.f1 == pytest.approx(0.75)
    assert result.agreement.precision == pytest.approx(0.75)
    assert result.agreement.recall == pytest.approx(0.75)
    # In frames: 2nd, 3rd and 4th are spoofed by the rule, 2nd and 3rd are marked.
    (point,) = result.points
    assert point.agreement == Agreement(2, 0, 1)
    assert point.agreement.iou == pytest.approx(2 / 3)
    assert point.agreement.f1 == pytest.approx(0.8)


def test_a_coarser_frame_has_the_lowest_score_and_the_lowest_label():
    recording = located([3, -1, 2, 1, 0.5], (Segment(0.03, 0.035),), 0.09)
    result = localisation([recording], [0.02, 0.04], threshold=0.7)
    fine, coarse = result.points
    assert (fine.bona_fide, fine.spoof) == (4, 1)
    # Scores [-1, 1, .5]; the first frame is spoofed.
    assert (coarse.bona_fide, coarse.spoof) == (2, 1)
    assert coarse.eer == 0
    assert coarse.agreement == Agreement(1, 1, 0)
    # The first of several thresholds is that of the range metrics.
    of_each = localisation([recording], [0.02, 0.04], threshold=[0.7, -0.5])
    assert (of_each.threshold, of_each.agreement) == (0.7, result.agreement)
    assert of_each.points == (fine, replace(coarse, threshold=-0.5, agreement=Agreement(1, 0, 0)))


def test_nothing_marked_is_no_precision():
    agreement = Agreement(0, 0, 3)
    assert (agreement.precision, agreement.recall, agreement.f1, agreement.iou) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("recordings", "resolutions", "reason"),
    [
        ([located([1, 2], (), 0.04)], (), "no spoofed trial"),
        ([located([1, 2], WHOLE, 0.04)], (), "no bona fide trial"),
        ([located([], WHOLE, 0.04)], (), "no frames with scores"),
        ([], (), "no frames with scores"),
        ([located([1, np.nan], (Segment(0, 0.02),), 0.04)], (), "NaN or infinite"),
        ([located([1, 2], (Segment(0, 0.02),), 0.04)], (0.03,), "is not a multiple of 0.02 s"),
        ([located([1, 2], (Segment(0, 0.02),), 0.04)], (0.01,), "is not a multiple of 0.02 s"),
    ],
)
def test_what_cannot_be_computed_is_an_error(recordings, resolutions, reason):
    with pytest.raises(AsdfError, match=reason):
        localisation(recordings, resolutions)


def test_a_coarser_resolution_has_a_threshold_of_its_own():
    """The lowest of eight scores is lower: at the threshold of one, nearly all would be marked."""
    generator = np.random.default_rng(5)
    recordings = []
    for _ in range(20):
        labels = np.repeat(generator.integers(0, 2, 10), 80)
        scores = labels + generator.normal(0, 0.7, len(labels))
        spoofed = []
        for index in np.flatnonzero(labels[::80] == 0):
            spoofed.append(Segment(index * 1.6, (index + 1) * 1.6))
        recordings.append(LocatedRecording(scores, 0.02, merged(spoofed), 16.0))
    result = localisation(recordings, (0.02, 0.16))
    fine, coarse = result.points
    assert fine.threshold == result.threshold > result.range_eer.threshold
    assert coarse.threshold == np.nextafter(coarse.eer_threshold, np.inf) < fine.threshold - 0.5
    # Where both error rates are equal, as many are marked wrongly as are missed.
    misses = coarse.agreement.misses / coarse.spoof
    assert misses == pytest.approx(coarse.agreement.false_alarms / coarse.bona_fide, abs=0.01)
    assert misses == pytest.approx(coarse.eer, abs=0.01)
    at_one = localisation(recordings, (0.02, 0.16), result.threshold).points[1]
    assert at_one.threshold == result.threshold
    assert coarse.agreement.f1 > at_one.agreement.f1 + 0.1


def test_where_all_scores_are_equal_nothing_or_everything_is_rejected():
    part = (Segment(0.0, 0.02),)
    recordings = [LocatedRecording(np.array([2.0]), 0.02, spoofed, 0.02) for spoofed in ((), part)]
    result = range_eer(pooled_stretches(recordings))
    # Of both points the first is taken, 0.001 below the lowest score.
    assert (result.rate, result.threshold) == (0.5, 2.0 - 0.001)


def test_the_first_validation_set_gives_the_threshold_of_a_network(tmp_path):
    sets = []
    for name, shift in (("dev", 0.0), ("other", 5.0), ("eval", 2.0)):
        parts = {"a": "-", "b": "0.02-0.04"}
        trials = TrialList(list(parts), np.array([1, 0]), columns={COLUMN: list(parts.values())})
        write_trials(tmp_path / f"{name}.tsv", trials)
        scores = np.array([[1.0, 2.0], [1.5, -1.0]], np.float32) + np.float32(shift)
        table = frame_table(list(parts), list(scores), 0.02, np.array([0.04, 0.04]))
        write_frame_table(tmp_path / f"{name}.frames.npz", table)
        paths = (tmp_path / f"{name}.txt", tmp_path / f"{name}.tsv")
        sets.append(ScoredSet("epoch.1", name, *paths))
    Task(Sections()).report(sets[2:], sets[:2], tmp_path)
    (record,) = json.loads((tmp_path / "localisation.json").read_text())
    assert record["threshold_of"] == "dev"
    assert record["threshold"] == pytest.approx(-1.0)


def drawn(count: int) -> list[LocatedRecording]:
    rng = np.random.default_rng(0)
    recordings = []
    for index in range(count):
        parts = (Segment(0.31, 0.61),) if index % 2 else ()
        recordings.append(LocatedRecording(rng.normal(0, 1, 50), 0.02, parts, 0.99))
    return recordings


@pytest.mark.parametrize("speakers", [None, ["a", "b", "c", "a", "b", "c", "a", "b"]])
def test_replicates_are_those_of_recordings_drawn_one_by_one(speakers):
    recordings = drawn(8)
    measured = localisation(recordings, threshold=0.1)
    result = localisation_intervals(recordings, measured, speakers=speakers, replicates=40, seed=3)
    names = speakers or [str(index) for index in range(8)]
    groups = sorted(set(names))
    rng = np.random.default_rng(3)
    rates, shares, scores = [], [], []
    for _ in range(40):
        times = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)))
        chosen = []
        for name, recording in zip(names, recordings, strict=True):
            chosen += [recording] * int(times[groups.index(name)])
        stretches = pooled_stretches(chosen)
        if stretches.is_bona_fide.all():
            continue
        rates.append(range_eer(stretches).rate)
        shares.append(agreement_of(stretches, 0.1).iou)
        scores.append(agreement_of(stretches, 0.1).f1)
    for name, replicated in (("range_eer", rates), ("iou", shares), ("f1", scores)):
        interval = result[name]
        assert interval.groups == len(groups)
        values = np.array(replicated)
        expected = rate_interval(interval.value, values, trials=0, groups=len(groups))
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    eer = result["range_eer"]
    assert eer.value == range_eer(pooled_stretches(recordings)).rate
    assert eer.low < eer.value < eer.high


def test_too_few_recordings_have_no_interval():
    recordings = drawn(2)[1:]
    with pytest.raises(AsdfError, match="too few are spoofed"):
        localisation_intervals(recordings, localisation(recordings), replicates=20)
