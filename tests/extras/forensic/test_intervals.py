"""Intervals of LLRs against a bootstrap that is written out, and how often they hold the truth."""

import json

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.evaluation import Scores
from asdf.extras.forensic.support import (
    Intervals,
    SupportColumn,
    Supported,
    bootstrap_maps,
    with_support,
)
from asdf.metrics.calibration import Calibration, CalibrationSet, calibrate, read_calibration
from asdf.metrics.llr_maps import METHODS, fit_map
from asdf.scoring.columns import CANNOT_TELL, Heard, Request
from asdf.scoring.scored import Known


def drawn(seed=0, bona_fide=80, spoof=120):
    rng = np.random.default_rng(seed)
    return rng.normal(2, 2, bona_fide), rng.normal(-2, 2, spoof)


def supported(bona_fide, spoof, method="logistic", replicates=500):
    """Return a calibration of the scores, with its bounds and its intervals."""
    scores = np.concatenate([bona_fide, spoof])
    labels = np.repeat([1, 0], [len(bona_fide), len(spoof)])
    learnt_from = CalibrationSet(Scores([f"{i}" for i in range(len(scores))], labels, scores))
    plain = calibrate(bona_fide, spoof, method=method)
    calibration = with_support(plain, learnt_from, replicates=replicates)
    return calibration, Intervals(calibration, "net.pt")


def test_trials_are_drawn_by_class():
    bona_fide, spoof = drawn()
    maps = bootstrap_maps("logistic", bona_fide, spoof, None, 5, seed=3)
    rng = np.random.default_rng(3)
    for fitted in maps:
        again_bona_fide = [bona_fide[index] for index in rng.integers(80, size=80)]
        again_spoof = [spoof[index] for index in rng.integers(120, size=120)]
        assert fitted == fit_map("logistic", again_bona_fide, again_spoof)


def test_speakers_are_drawn_with_all_of_their_trials():
    bona_fide, spoof = drawn()
    speakers = ([f"s{index % 7}" for index in range(80)], [f"s{index % 9}" for index in range(120)])
    maps = bootstrap_maps("regularised", bona_fide, spoof, speakers, 4, seed=1)
    rng = np.random.default_rng(1)
    for fitted in maps:
        chosen = [f"s{index}" for index in rng.integers(9, size=9)]
        again = []
        for scores, of_trials in zip((bona_fide, spoof), speakers, strict=True):
            again.append([scores[np.array(of_trials) == name] for name in chosen])
        drawn_again = map(np.concatenate, again)
        assert fitted == fit_map("regularised", *drawn_again, units=9)


@pytest.mark.slow_but("regularised", "logistic")
@pytest.mark.parametrize("method", METHODS)
def test_an_interval_has_the_percentiles_of_the_maps(method):
    bona_fide, spoof = drawn()
    calibration, intervals = supported(bona_fide, spoof, method)
    maps = bootstrap_maps(method, bona_fide, spoof, None, 500)
    for raw in (-1.0, 0.0, 0.4, 1.0):
        llrs = sorted(float(fitted(raw)) for fitted in maps)
        low, high = intervals.interval(raw)
        # Of 500 values 12.475 lie below the percentile of 2.5; knots move a map by a little.
        tolerance = 1e-9 if method != "bi-gaussian" else 0.15
        assert low == pytest.approx(llrs[12] + 0.475 * (llrs[13] - llrs[12]), abs=tolerance)
        assert high == pytest.approx(llrs[486] + 0.525 * (llrs[487] - llrs[486]), abs=tolerance)
        assert low <= calibration.llr(raw) <= high


def test_an_interval_ends_at_the_bounds_and_holds_its_llr():
    bona_fide, spoof = drawn()
    calibration, intervals = supported(bona_fide, spoof)
    low, high = intervals.interval(30.0)
    assert low <= calibration.llr(30.0) == high == calibration.highest_llr
    assert intervals.interval(-30.0)[0] == calibration.lowest_llr
    # All replicates lie above the map itself.
    skewed = Calibration(1.0, 0.0, 0.0, others={"replicates": [[1.0, 2.0], [1.0, 3.0]]})
    assert Intervals(skewed, "net.pt").interval(0.5)[0] == 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"replicates": []},
        {"replicates": [[1.0, 0.0], [1.0]]},
        {"replicates": [[1.0, np.nan]]},
        {"replicates": "12"},
        {"replicates": [[1.0, 2.0]], "map_scores": [0.0, 1.0, 2.0], "map_llrs": [0.0, 1.0, 2.0]},
    ],
)
def test_damaged_replicates_are_refused(change):
    """The core hands them on; who opens the network for scores hears of it."""
    entry = {**Calibration(1.0, 0.0, 0.0).content(), **change}
    calibration = read_calibration(entry, "net.pt")
    assert calibration.content() == entry
    with pytest.raises(AsdfError, match=r"net\.pt cannot be used"):
        SupportColumn.wanted(Request(calibration, source="net.pt"))


def test_words_are_those_of_recordings_that_the_ratio_stands_for():
    column = SupportColumn(Calibration(1.0, 0.0, 0.0))
    moderate = "moderate support for bona fide rather than spoof"
    assert column.add(Heard(3.0, 3.0)).llr_words == moderate
    for heard in (Heard(3.0, 3.0, judged=False), Heard(3.0, 3.0, doubted=True)):
        assert column.add(heard).llr_words == ""
    assert (Known().llr_words, Known().llr_interval) == ("", None)
    unclear = Supported(0.9441, 2.0, (0.15, 0.9441), "weak support", is_clear=False)
    numbers = "(log10 0.41, LLR 0.15 to 0.94 at 95 %)"
    assert SupportColumn.words(unclear) == f"{CANNOT_TELL[:-1]} {numbers}"


def test_they_come_back_from_a_file_of_json():

    bona_fide, spoof = drawn()
    for method in METHODS:
        calibration, intervals = supported(bona_fide, spoof, method, replicates=20)
        again = read_calibration(json.loads(json.dumps(calibration.content())), "net.json")
        assert again == calibration
        assert Intervals(again, "net.json").interval(0.7) == intervals.interval(0.7)


def test_without_enough_draws_there_are_none():
    # One bona fide speaker of two: every fourth draw lacks them.
    speakers = (["a"] * 3, ["b"] * 4)
    assert bootstrap_maps("logistic", *drawn(0, 3, 4), speakers, 50) != []
    # Turned in most draws.
    rng = np.random.default_rng(0)
    bona_fide, spoof = rng.normal(-1, 1, 30), rng.normal(0, 1, 30)
    assert bootstrap_maps("logistic", bona_fide, spoof, None, 20) == []


@pytest.mark.slow
def test_intervals_hold_the_true_llr_about_as_often_as_they_say():
    """Two Gaussians of one variance: the LLR of a score x is 4 x / 4."""
    hits = 0
    for seed in range(200):
        bona_fide, spoof = drawn(seed)
        maps = bootstrap_maps("logistic", bona_fide, spoof, None, 200, seed)
        llrs = [float(fitted(1.0)) for fitted in maps]
        low, high = np.quantile(llrs, [0.025, 0.975])
        hits += low <= 1.0 <= high
    assert 0.90 <= hits / 200 <= 0.99
