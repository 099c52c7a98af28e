"""Means, deviations, intervals and tests over seeds, held against numbers made by hand or numpy."""

import numpy as np
import pytest
from scipy import stats

from asdf.errors import AsdfError
from asdf.metrics.detection import eer as eer_of
from asdf.runs.seeds import generator
from asdf.tasks.studies.over_seeds import (
    SeedDraws,
    average_of_sets,
    compare_seeds,
    draw_seeds,
    spread_of,
    spreads,
    welch_test,
)
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

LABELS = np.array([1] * 30 + [0] * 50)
IDS = [f"U_{index:03d}" for index in range(80)]
SPEAKERS = [f"S{index % 8}" for index in range(80)]


def scored(seed: int, shift: float = 1.0, trials: int = 80) -> Scores:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=80) + shift * LABELS
    # As score files have them.
    return Scores(IDS[:trials], LABELS[:trials], scores[:trials])


def drawn_of(shift: float, seeds=(0, 1, 2), offset: int = 0, replicates: int = 200) -> SeedDraws:
    scores = [scored(offset + seed, shift) for seed in seeds]
    return draw_seeds([str(seed) for seed in seeds], scores, replicates=replicates)


def test_mean_and_deviation_by_hand():
    spread = spread_of([0.02, 0.04, 0.09])
    assert spread.mean == pytest.approx(0.05)
    # Squares of 0.03, 0.01 and 0.04, over n - 1.
    assert spread.deviation == pytest.approx(0.0013**0.5)
    assert spread_of([0.02]).deviation is None


def test_all_networks_have_the_same_draws_of_the_trials():
    same = scored(0)
    draws = draw_seeds(["0", "1"], [same, same], replicates=50)
    assert (draws.drawn[0] == draws.drawn[1]).all()
    assert draws.drawn[0].std(axis=-1).min() > 0
    # The order of a file does not count, nor what else is drawn.
    turned = same.select(np.arange(80)[::-1])
    again = draw_seeds(["x"], [turned], replicates=50)
    assert (again.drawn[0] == draws.drawn[0]).all()
    assert again.measured[0] == pytest.approx(draws.measured[0])


def test_a_replicate_is_the_eer_of_the_trials_written_out():
    scores = scored(3)
    draws = draw_seeds(["0"], [scores], replicates=5)
    rng = generator(0, "trials", draws.trials)
    for number in range(5):
        bona_fide = scores.bona_fide[rng.integers(30, size=30)]
        spoof = scores.spoof[rng.integers(50, size=50)]
        assert draws.drawn[0, 0, number] == eer_of(bona_fide, spoof)[0]


def test_whole_speakers_are_drawn_where_they_are_known():
    trials = TrialList(IDS, LABELS, columns={"speaker": SPEAKERS})
    draws = draw_seeds(["0", "1"], [scored(0), scored(1)], trials, replicates=50)
    assert draws.by_speakers
    assert not drawn_of(1.0).by_speakers
    alone = draw_seeds(["0"], [scored(0)], trials, replicates=800, is_compared=False)
    shared = draw_seeds(["0"], [scored(0)], trials, replicates=800)
    # Drawn by blocks or by trials: other numbers, one distribution.
    ends = [np.quantile(draws.drawn, [0.1, 0.9]) for draws in (alone, shared)]
    assert ends[0] == pytest.approx(ends[1], abs=0.03)


def test_the_interval_of_a_mean_adds_the_squares_of_both_parts():
    draws = drawn_of(1.0, replicates=800)
    eer, min_dcf = spreads(draws)
    assert eer.values == tuple(draws.measured[:, 0])
    assert eer.interval is not None
    assert min_dcf.interval is not None
    low, high = np.quantile(draws.drawn[:, 0].mean(axis=0), [0.025, 0.975])
    # Of three seeds: t with two degrees of freedom, over the root of three.
    of_seeds = 4.302653 * draws.measured[:, 0].std(ddof=1) / 3**0.5
    assert eer.interval.low == pytest.approx(max(0, eer.mean - np.hypot(eer.mean - low, of_seeds)))
    assert eer.interval.high == pytest.approx(eer.mean + np.hypot(high - eer.mean, of_seeds))
    assert spreads(drawn_of(1.0, replicates=800)) == (eer, min_dcf)
    # The lowest cost is biased low, so more of its interval lies above it.
    _, min_dcf = spreads(drawn_of(2.0, replicates=800))
    assert min_dcf.interval is not None
    assert min_dcf.interval.high - min_dcf.mean > min_dcf.mean - min_dcf.interval.low


def test_a_single_seed_has_the_interval_over_trials():
    draws = drawn_of(1.0, seeds=(0,), replicates=100)
    eer, _ = spreads(draws)
    assert eer.interval is not None
    drawn = draws.drawn[0, 0]
    assert (eer.interval.low, eer.interval.high) == tuple(np.quantile(drawn, [0.025, 0.975]))


def test_seeds_without_an_error_have_an_exact_bound():
    eer, min_dcf = spreads(drawn_of(100.0, replicates=20))
    assert eer.interval is not None and min_dcf.interval is not None
    assert (eer.mean, eer.interval.low) == (0, 0)
    # No error in 30 bona fide trials, in 50 spoofs: p with (1 - p)^n = .025.
    assert eer.interval.high == pytest.approx(1 - 0.025 ** (1 / 30))
    rates = np.array([1 - 0.025 ** (1 / 30), 1 - 0.025 ** (1 / 50)])
    assert min_dcf.interval.high == pytest.approx(np.hypot(1.9 * rates[0], rates[1]))


def test_without_replicates_there_is_no_interval():
    eer, _ = spreads(drawn_of(1.0, replicates=0))
    assert eer.deviation is not None
    assert eer.interval is None


def test_differences_are_paired_by_seed_where_both_have_the_same():
    first = drawn_of(0.8)
    tested = compare_seeds(first, drawn_of(2.0))
    assert tested.is_paired
    assert tested.seeds == (3, 3)
    assert tested.difference.eer.value < -0.1
    other = drawn_of(2.0)
    seeds = (other.measured - first.measured)[:, 0]
    of_seeds = seeds.var(ddof=1) / 3
    of_trials = (other.drawn - first.drawn)[:, 0].mean(axis=0).var()
    degrees = (of_seeds + of_trials) ** 2 / (of_seeds**2 / 2)
    reach = stats.t.ppf(0.975, degrees) * np.sqrt(of_seeds + of_trials)
    interval = tested.difference.eer
    expected = (seeds.mean() - reach, seeds.mean() + reach)
    assert (interval.low, interval.high) == pytest.approx(expected)
    statistic = -abs(seeds.mean()) / np.sqrt(of_seeds + of_trials)
    assert interval.p_value == pytest.approx(2 * stats.t.cdf(statistic, degrees))
    # The order in which seeds are named does not count.
    turned = drawn_of(2.0, seeds=(2, 0, 1))
    assert compare_seeds(first, turned).difference.eer.value == pytest.approx(interval.value)
    assert compare_seeds(first, turned).difference.eer.low == pytest.approx(interval.low)


def test_other_seeds_are_drawn_independently():
    tested = compare_seeds(drawn_of(0.8), drawn_of(0.8, seeds=(3, 4, 5, 6)))
    assert not tested.is_paired
    assert tested.seeds == (3, 4)
    assert tested.difference.eer.p_value is not None
    assert tested.difference.eer.p_value > 0.05


def test_a_test_can_be_read_in_the_other_direction():
    tested = compare_seeds(drawn_of(0.8), drawn_of(2.0, seeds=(0, 1)))
    turned = tested.reverse()
    eer, other = tested.difference.eer, turned.difference.eer
    assert (other.value, other.low, other.high) == (-eer.value, -eer.high, -eer.low)
    assert (other.p_value, turned.seeds) == (eer.p_value, (2, 3))


def test_a_configuration_does_not_differ_from_itself():
    tested = compare_seeds(drawn_of(0.8), drawn_of(0.8))
    assert tested.difference.eer.p_value == 1
    assert tested.eer_welch_p == pytest.approx(1)


def test_welch_is_that_of_scipy():
    first = [0.041, 0.052, 0.046, 0.060]
    second = [0.071, 0.058, 0.083]
    expected = stats.ttest_ind(first, second, equal_var=False).pvalue
    assert welch_test(first, second) == pytest.approx(expected, rel=1e-9)
    assert welch_test(first, second[:2]) is None
    assert welch_test([0.5] * 3, [0.5] * 3) == 1
    assert welch_test([0.5] * 3, [0.25] * 3) == 0


def test_the_average_of_sets_is_of_independent_draws():
    sets = []
    for number in (1, 2):
        scores = scored(number)
        renamed = Scores([f"{number}{name}" for name in IDS], scores.labels, scores.scores)
        sets.append(draw_seeds(["0"], [renamed], replicates=800))
    average = average_of_sets(sets)
    assert average.measured[0, 0] == (sets[0].measured[0, 0] + sets[1].measured[0, 0]) / 2
    variances = [draws.drawn[0, 0].var() for draws in sets]
    assert average.drawn[0, 0].var() == pytest.approx(sum(variances) / 4, rel=0.15)


def test_other_trials_are_refused():
    with pytest.raises(AsdfError, match="seeds 0, 1 were not scored on the same trials"):
        draw_seeds(["0", "1"], [scored(0), scored(1, trials=79)])
    other = draw_seeds(["0"], [scored(0, trials=79)], replicates=50)
    with pytest.raises(AsdfError, match="not scored on the same trials"):
        compare_seeds(draw_seeds(["0"], [scored(0)], replicates=50), other)
    with pytest.raises(AsdfError, match="--replicates"):
        compare_seeds(drawn_of(1.0, replicates=0), drawn_of(1.0, replicates=0))
