"""Curves small enough for a page show what the whole ones show."""

import statistics

import numpy as np
import pytest

from asdf.evaluation import det_curve
from asdf.metrics.detection import DetCurve
from asdf.report.curves import (
    DET_TICKS,
    averaged,
    bin_count,
    det_range,
    histogram,
    probit,
    simplified,
    thinned,
    thinned_det,
)


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.2, 0.5, 0.9])
def test_probit_is_the_normal_deviate(rate):
    assert probit(rate) == pytest.approx(statistics.NormalDist().inv_cdf(rate), abs=2e-5)


def test_det_points_of_four_trials_are_all_corners_of_the_staircase():
    curve = thinned_det(DetCurve.of([1, 2], [0, 1.5]))
    assert curve.rates == [100, 0, 50, 0, 50, 50, 0, 50, 0, 100]
    # Scores up to the threshold are rejected: the first one lies below all of them.
    assert curve.thresholds == [-0.001, 0, 1, 1.5, 2]
    assert (curve.eer, curve.eer_point) == (0.5, (50, 50))


def test_the_mark_of_the_eer_is_a_point_of_the_curve():
    # No threshold has equal rates: of 3 bona fide and 4 spoofs, the nearest are 1/3 and 1/4.
    curve = thinned_det(DetCurve.of([0, 3, 4], [-2, -1, 1, 2.5][::-1]))
    assert curve.eer_point == (25, 33.333)
    # On the level line of the curve from 50 to 0 % false alarms.
    points = list(zip(curve.rates[::2], curve.rates[1::2], strict=True))
    assert points.index((0, 33.333)) == points.index((50, 33.333)) + 1
    assert curve.eer == pytest.approx((1 / 4 + 1 / 3) / 2)


def test_a_long_curve_is_thinned_by_less_than_a_pixel():
    rng = np.random.default_rng(3)
    bona_fide, spoof = rng.normal(2.5, 1, 20_000), rng.normal(0, 1, 180_000)
    points = np.array(thinned_det(DetCurve.of(bona_fide, spoof)).rates).reshape(-1, 2) / 100
    assert len(points) < 600
    assert (points[0].tolist(), points[-1].tolist()) == ([1, 0], [0, 1])
    miss, false_alarm, _ = det_curve(bona_fide, spoof)
    shown = (false_alarm > 0.001) & (false_alarm < 0.4) & (miss > 0.001) & (miss < 0.4)
    x, y = probit(false_alarm[shown]), probit(miss[shown])
    drawn = np.interp(-x, -probit(points[:, 0]), probit(points[:, 1]))
    span = probit(0.4) - probit(0.001)
    # Measured upright instead of at right angles to the line: thrice the half pixel covers its
    # slope.
    assert np.abs(drawn - y).max() / span * 700 < 1.5


def test_simplified_keeps_corners_and_drops_what_lies_between():
    x = np.array([0.0, 1, 2, 3, 3, 3])
    y = np.array([0.0, 0, 0, 0, 1, 2])
    assert simplified(x, y, 1e-6).tolist() == [0, 3, 5]
    assert simplified(x, y + np.array([0, 0.01, 0, 0, 0, 0]), 0.1).tolist() == [0, 3, 5]
    assert simplified(x, y + np.array([0, 0.5, 0, 0, 0, 0]), 0.1).tolist() == [0, 1, 2, 3, 5]


def test_miss_at_is_the_least_miss_rate_allowed():
    bona_fide, spoof = [1, 2, 3, 4], [0, 1.5, 2.5, 5]
    misses = DetCurve.of(bona_fide, spoof).miss_at([1, 0.75, 0.5, 0.3, 0.25, 0.1])
    assert misses == [0, 0, 0.25, 0.5, 0.5, 1]
    assert DET_TICKS == (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40)


def test_labels_of_det_axes_do_not_touch():
    for eers in ([5.0], [0.1], [45.0], [0.1, 45.0]):
        low, high, ticks = det_range(eers)
        places = probit(np.array([low, high, *ticks]) / 100)
        # Axes of 400 pixels, characters of 5.
        gaps = np.diff(places[2:]) * 400 / (places[1] - places[0])
        widths = [5 * len(f"{tick:g}") for tick in ticks]
        assert all(gaps > np.add(widths[1:], widths[:-1]) / 2 + 3)


def test_a_histogram_counts_every_trial_once():
    bona_fide, spoof = np.array([0.0, 1, 2, 3, 1000]), np.array([-2.0, -1, 0, 1])
    counts = histogram(bona_fide, spoof, {"A": spoof[:1], "B": spoof[1:]}, 0.5, bins=4)
    assert sum(counts.bona_fide) == 5
    assert {name: sum(trials) for name, trials in counts.spoof.items()} == {"": 4, "A": 1, "B": 3}
    both = zip(counts.spoof["A"], counts.spoof["B"], strict=True)
    assert counts.spoof[""] == list(map(sum, both))


def test_few_trials_are_no_comb():
    """At most the root of the number of trials, the width of Freedman and Diaconis, and 60."""
    rng = np.random.default_rng(2)
    few = histogram(rng.normal(2, 1, 16), rng.normal(0, 1, 20), {}, 1.0)
    assert len(few.bona_fide) == 6
    bona_fide, spoof = rng.normal(2, 1, 4000), rng.normal(0, 0.5, 4000)
    span = 7.0
    lower, upper = np.quantile(spoof, [0.25, 0.75])
    expected = int(np.ceil(span / (2 * (upper - lower) / 4000 ** (1 / 3))))
    assert bin_count((bona_fide, spoof), span) == min(60, expected)
    spread = np.subtract(*np.quantile(bona_fide, [0.75, 0.25]))
    assert bin_count((bona_fide, bona_fide), 2.0) == int(np.ceil(4000 ** (1 / 3) / spread))
    assert bin_count((np.ones(9), np.zeros(7)), 1.0) == 4


def test_a_histogram_keeps_outliers_in_its_outermost_bins_and_shows_the_threshold():
    rng = np.random.default_rng(0)
    bona_fide, spoof = np.append(rng.normal(1, 1, 5000), 1e6), rng.normal(-1, 1, 5000)
    counts = histogram(bona_fide, spoof, {}, 9.0)
    assert counts.high == 9.0 and counts.low > -6 and counts.bona_fide[-1] == 1


def test_scores_that_are_all_the_same_have_a_histogram_too():
    same = histogram(np.ones(3), np.ones(2), {}, 1.0, bins=3)
    assert (same.low, same.high, same.bona_fide, same.spoof[""]) == (0.5, 1.5, [0, 3, 0], [0, 2, 0])


def test_a_thinned_series_keeps_ends_and_spikes():
    y = np.zeros(10_000)
    y[1234], y[7777] = 5, -3
    points = np.array(thinned(range(10_000), y.tolist(), max_points=100)).reshape(-1, 2)
    assert len(points) <= 102
    assert (points[0].tolist(), points[-1].tolist()) == ([0, 0], [9999, 0])
    assert [1234, 5] in points.tolist() and [7777, -3] in points.tolist()
    assert (np.diff(points[:, 0]) > 0).all()


def test_a_short_series_stays_as_it_is():
    assert thinned([0.5, 1], [0.25, 1 / 3]) == [0.5, 0.25, 1, 0.33333]
    assert thinned([], []) == []


def test_the_course_of_a_series_is_its_means():
    x, y = list(range(12)), [1, 3] * 6
    assert averaged(x, y, stretches=3) == [1.5, 2, 5.5, 2, 9.5, 2]
    assert averaged(x, y, stretches=5) == []
