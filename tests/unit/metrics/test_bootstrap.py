"""Bootstrap intervals against trials really drawn, written out and sorted again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from asdf.errors import AsdfError
from asdf.evaluation import Scores, confidence_intervals, eer, min_dcf, paired_test
from asdf.metrics.bootstrap import block_draws, speaker_draws, trial_draws, weighted_metrics
from asdf.metrics.detection import DetCurve, into_blocks
from asdf.metrics.intervals import (
    Rates,
    lowest_interval,
    proportion_bounds,
    t_quantile,
    two_sided_p,
)
from asdf.tasks.studies.over_seeds import draw_seeds
from tests.unit.metrics.strategies import scores_of

_pairs = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=1, max_size=12)
_values = _pairs.filter(lambda pairs: any(weight for _, weight in pairs))


@settings(max_examples=150, deadline=None)
@given(_values, _values)
def test_weights_are_trials_written_out(bona_fide, spoof):
    (b, wb), (s, ws) = (np.array(pairs).T for pairs in (bona_fide, spoof))
    counts = into_blocks(DetCurve.of(b, s)).sums(wb, ws)
    drawn = weighted_metrics(counts[0][None], counts[1][None])[:, 0]
    written_out = np.repeat(b, wb), np.repeat(s, ws)
    assert drawn[0] == eer(*written_out)[0]
    assert drawn[1] == pytest.approx(min_dcf(*written_out), rel=1e-12)


def test_interval_is_that_of_a_naive_bootstrap():
    rng = np.random.default_rng(0)
    bona_fide, spoof = rng.normal(1, 1, 150), np.round(rng.normal(-1, 1, 350), 1)
    intervals = confidence_intervals(scores_of(bona_fide, spoof), replicates=4000, seed=1)
    naive = []
    for _ in range(4000):
        drawn = rng.choice(bona_fide, bona_fide.size), rng.choice(spoof, spoof.size)
        naive.append((eer(*drawn)[0], min_dcf(*drawn)))
    eers, min_dcfs = np.transpose(naive)
    assert intervals.eer.value == eer(bona_fide, spoof)[0]
    assert intervals.eer.low < intervals.eer.value < intervals.eer.high
    # The 2.5 % quantile of 4,000 draws has a standard error near 0.05 standard deviations.
    near = pytest.approx(np.quantile(eers, [0.025, 0.975]), abs=0.25 * eers.std())
    assert [intervals.eer.low, intervals.eer.high] == near
    # Replicates lie below the measured cost, the interval around what lies above it.
    lowest = min_dcf(bona_fide, spoof)
    bias = (lowest - min_dcfs.mean()) / (2 ** (2 / 3) - 1)
    assert bias > 0
    assert intervals.min_dcf.value == lowest
    middle = (intervals.min_dcf.low + intervals.min_dcf.high) / 2
    assert middle == pytest.approx(lowest + bias, abs=0.25 * min_dcfs.std())


def test_same_seed_same_interval():
    rng = np.random.default_rng(2)
    scores = scores_of(rng.normal(0.2, 1, 400), rng.normal(0, 1, 400))
    assert confidence_intervals(scores, seed=3) == confidence_intervals(scores, seed=3)
    assert confidence_intervals(scores, seed=3) != confidence_intervals(scores, seed=4)


def test_block_draws_keep_the_size_of_each_class_in_every_chunk():
    rng = np.random.default_rng(1)
    blocks = into_blocks(DetCurve.of(rng.normal(size=5000), rng.normal(size=3000)))
    chunks = list(block_draws(blocks, 2500, rng))
    assert len(chunks) > 1
    for side, size in enumerate((5000, 3000)):
        counts = np.concatenate([chunk[side] for chunk in chunks])
        assert counts.shape == (2500, blocks.count)
        assert (counts.sum(axis=1) == size).all()
        assert counts.mean(axis=0) == pytest.approx(blocks.counts()[side], abs=0.35)


def test_speakers_that_differ_widen_the_interval():
    """Each speaker's trials share an offset, so they say less than as many independent trials."""
    rng = np.random.default_rng(4)
    names = np.repeat([f"s{i}" for i in range(12)], 60)
    labels = np.tile([1, 0, 0], 240)
    offsets = np.repeat(rng.normal(0, 1.5, 12), 60)
    values = rng.normal(0, 1, 720) + 2 * labels + offsets
    scores = Scores([f"u{i}" for i in range(720)], labels, values)
    trials = confidence_intervals(scores).eer
    speakers = confidence_intervals(scores, speakers=names.tolist()).eer
    assert speakers.value == trials.value
    assert speakers.high - speakers.low > 1.5 * (trials.high - trials.low)


def test_each_trial_a_speaker_of_its_own_is_a_draw_of_trials():
    rng = np.random.default_rng(6)
    scores = scores_of(rng.normal(1, 1, 400), rng.normal(-1, 1, 400))
    alone = confidence_intervals(scores, speakers=scores.ids, replicates=3000).eer
    trials = confidence_intervals(scores, replicates=3000).eer
    assert (alone.low, alone.high) == pytest.approx((trials.low, trials.high), abs=0.005)


def test_speaker_draws_without_a_class_are_drawn_again():
    scores = scores_of(np.array([1.0, 2.0]), np.array([0.0, -1.0]))
    intervals = confidence_intervals(scores, speakers=["a", "a", "b", "b"], replicates=50)
    # Neither of two speakers has an error: p with (1 - p)^2 = .025.
    assert intervals.eer.low == 0
    assert intervals.eer.high == pytest.approx(1 - 0.025**0.5)
    with pytest.raises(AsdfError, match="at least two speakers"):
        confidence_intervals(scores, speakers=["a"] * 4)


def test_without_an_error_the_bound_is_the_exact_binomial_one():
    rng = np.random.default_rng(7)
    scores = scores_of(rng.uniform(1, 2, 80), rng.uniform(-2, -1, 120))
    intervals = confidence_intervals(scores, replicates=50)
    # No error in n trials: p with (1 - p)^n = .025.
    missed, accepted = 1 - 0.025 ** (1 / 80), 1 - 0.025 ** (1 / 120)
    assert (intervals.eer.low, intervals.eer.value) == (0, 0)
    assert intervals.eer.high == pytest.approx(missed)
    assert intervals.eer.high == pytest.approx(stats.beta.ppf(0.975, 1, 80))
    assert (intervals.min_dcf.low, intervals.min_dcf.value) == (0, 0)
    assert intervals.min_dcf.high == pytest.approx(np.hypot(1.9 * missed, accepted))
    # A trial of each speaker: the bound is that of as many speakers.
    names = [f"s{index % 20}" for index in range(200)]
    speakers = confidence_intervals(scores, speakers=names, replicates=50)
    assert speakers.eer.high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_all_errors_are_bounded_from_below():
    scores = scores_of(np.linspace(-2, -1, 30), np.linspace(1, 2, 40))
    interval = confidence_intervals(scores, replicates=50).eer
    assert (interval.value, interval.high) == (1, 1)
    assert interval.low == pytest.approx(0.025 ** (1 / 30))


def test_few_speakers_have_a_wider_interval_than_percentiles():
    """Student's t of 5 degrees of freedom, and replicates that show 5/6 of the variance."""
    rng = np.random.default_rng(12)
    names = np.repeat([f"s{index}" for index in range(6)], 30)
    labels = np.tile([1, 0, 0], 60)
    offsets = np.repeat(rng.normal(0, 0.7, 6), 30)
    values = rng.normal(0, 1, 180) + 2 * labels + offsets
    scores = Scores([f"u{i}" for i in range(180)], labels, values)
    interval = confidence_intervals(scores, speakers=names.tolist()).eer
    drawn = []
    for weights in speaker_draws(labels, names.tolist(), 1000, np.random.default_rng(0)):
        bona_fide = np.repeat(scores.bona_fide, weights.bona_fide)
        drawn.append(eer(bona_fide, np.repeat(scores.spoof, weights.spoof))[0])
    odds = np.log(drawn) - np.log1p(-np.array(drawn))
    reach = (np.quantile(odds, [0.025, 0.975]) - odds.mean()) * 2.570582 / 1.959964 * (6 / 5) ** 0.5
    middle = 2 * np.log(interval.value / (1 - interval.value)) - odds.mean()
    expected = 1 / (1 + np.exp(-(middle + reach)))
    assert [interval.low, interval.high] == pytest.approx(expected.tolist(), rel=1e-5)


def test_paired_test_sees_what_separate_intervals_do_not():
    rng = np.random.default_rng(8)
    first = scores_of(rng.normal(1, 1, 600), rng.normal(-1, 1, 600))
    shift = 0.06 * (2 * first.labels - 1)
    better = Scores(first.ids, first.labels, first.scores + shift)
    order = rng.permutation(1200)
    shuffled = Scores([better.ids[i] for i in order], better.labels[order], better.scores[order])
    result = paired_test(first, shuffled)
    eers = [eer(system.bona_fide, system.spoof)[0] for system in (first, better)]
    assert result.eer.value == eers[1] - eers[0]
    assert result.eer.low < result.eer.high < 0
    assert result.eer.p_value < 0.01
    alone = confidence_intervals(first).eer
    assert alone.low < eers[1] < alone.high
    back = paired_test(better, first)
    assert back.eer.value == -result.eer.value
    assert back.eer.low > 0


def test_paired_test_of_a_system_with_itself():
    rng = np.random.default_rng(9)
    scores = scores_of(rng.normal(1, 1, 50), rng.normal(-1, 1, 50))
    by_speaker = paired_test(scores, scores, speakers=scores.ids)
    for interval in (paired_test(scores, scores).eer, by_speaker.min_dcf):
        assert (interval.value, interval.low, interval.high, interval.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize("speakers", [None, [f"s{index % 9}" for index in range(60)]])
def test_replicates_computed_together_are_those_computed_one_by_one(speakers, monkeypatch):
    rng = np.random.default_rng(3)
    labels = np.repeat([1, 0], [25, 35])
    ids = [f"u{index}" for index in range(60)]
    systems = [Scores(ids, labels, rng.normal(size=60) + labels) for _ in range(2)]
    together = paired_test(*systems, speakers=speakers, replicates=50)
    seeds = draw_seeds(["0", "1"], systems, replicates=50)
    # Seven replicates of both systems' blocks at a time, and then one at a time.
    blocks = sum(into_blocks(DetCurve.of_scores(each)).count for each in systems)
    for numbers in (7 * blocks, 1):
        monkeypatch.setattr("asdf.metrics.bootstrap._NUMBERS_AT_ONCE", numbers)
        assert paired_test(*systems, speakers=speakers, replicates=50) == together
        again = draw_seeds(["0", "1"], systems, replicates=50)
        assert np.array_equal(again.drawn, seeds.drawn)


def test_few_trials_show_less_than_their_replicates():
    """Of 3 + 3 trials, replicates show 2/3 of the variance: Student's t with 2 degrees."""
    first = scores_of(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, -1.0]))
    second = Scores(first.ids, first.labels, first.scores[[1, 0, 3, 2, 4, 5]])
    few = paired_test(first, second).eer
    deviation = (few.high - few.value) / t_quantile(0.95, 2)
    assert few.p_value == two_sided_p(few.value / deviation, 2)
    drawn = []
    for weights in trial_draws(first.labels, 1000, np.random.default_rng(0)):
        trials = [np.repeat(np.arange(3), times) for times in weights]
        pair = [
            eer(each.bona_fide[trials[0]], each.spoof[trials[1]])[0] for each in (first, second)
        ]
        drawn.append(pair[1] - pair[0])
    assert deviation == pytest.approx(np.std(drawn) * np.sqrt(3 / 2))
    # Without any variation, a sign test: 3 equal signs are no significant difference.
    right = scores_of(np.ones(3), np.zeros(3))
    wrong = Scores(right.ids, right.labels, -right.scores)
    assert paired_test(right, wrong).eer.p_value == 0.25
    assert paired_test(scores_of([1.0], [0.0]), scores_of([0.0], [1.0])).min_dcf.p_value == 0.5


def test_paired_test_finds_trials_in_another_spelling():
    rng = np.random.default_rng(12)
    first = scores_of(rng.normal(1, 1, 30), rng.normal(-1, 1, 30))
    second = Scores(first.ids, first.labels, first.scores + rng.normal(0, 1, 60))
    named = Scores([f"flac/{name}.flac" for name in first.ids], first.labels, second.scores)
    assert paired_test(first, named, replicates=50) == paired_test(first, second, replicates=50)
    # Two trials of one name are not one trial.
    twice = Scores(["x/u0.flac", "y/u0.flac", *first.ids[2:]], first.labels, first.scores)
    with pytest.raises(AsdfError, match="are without a score here: 'u1'"):
        paired_test(first, twice)


def test_paired_test_wants_the_same_trials():
    scores = scores_of(np.array([1.0, 2.0]), np.array([0.0, -1.0]))
    other = Scores([*scores.ids[:3], "else"], scores.labels, scores.scores)
    with pytest.raises(AsdfError, match="of the first: 1 are not in it: 'else'"):
        paired_test(scores, other)
    with pytest.raises(AsdfError, match="labelled differently in the first: 'u0'"):
        paired_test(scores, Scores(scores.ids, 1 - scores.labels, scores.scores))


def test_the_paired_test_is_that_of_the_difference_over_its_deviation():
    rng = np.random.default_rng(10)
    first = scores_of(rng.normal(1, 1, 60), rng.normal(-1, 1, 90))
    second = Scores(first.ids, first.labels, first.scores + rng.normal(0, 1, 150))
    tested = paired_test(first, second, replicates=400, seed=2)
    drawn = []
    for weights in trial_draws(first.labels, 400, np.random.default_rng(2)):
        pair = []
        for scores in (first, second):
            bona_fide = np.repeat(scores.bona_fide, weights.bona_fide)
            pair.append(eer(bona_fide, np.repeat(scores.spoof, weights.spoof))[0])
        drawn.append(pair[1] - pair[0])
    deviation = np.std(drawn)
    expected = 2 * stats.norm.sf(abs(tested.eer.value) / deviation)
    assert tested.eer.p_value == pytest.approx(expected, rel=1e-9)
    # Zero is outside of the interval where p is below .05.
    reach = stats.norm.ppf(0.975) * deviation
    assert tested.eer.high - tested.eer.value == pytest.approx(reach)
    assert tested.eer.value - tested.eer.low == pytest.approx(reach)


def test_the_lower_end_of_a_lowest_cost_is_not_raised_and_the_upper_one_is():
    """Replicates lie lower where the measured cost is too low, or where they alone are."""
    rates = Rates(np.array([0.1, 0.2]), np.array([1.9, 1.0]), np.array([80.0, 120.0]))
    spread = np.linspace(-0.05, 0.05, 201)
    plain = lowest_interval(0.39, 0.39 + spread, rates)
    biased = lowest_interval(0.39, 0.37 + spread, rates)
    misses, false_alarms = proportion_bounds(8, 80), proportion_bounds(24, 120)
    below = np.hypot(1.9 * (0.1 - misses[0]), 0.2 - false_alarms[0])
    above = np.hypot(1.9 * (misses[1] - 0.1), false_alarms[1] - 0.2)
    assert plain.low == biased.low == pytest.approx(0.39 - below)
    assert plain.high == pytest.approx(0.39 + above)
    # 1.96 times .757 of the bias of a smooth curve.
    local = 1.959964 * 0.757 * 0.02 / (2 ** (2 / 3) - 1)
    assert biased.high == pytest.approx(0.41 + np.hypot(above, local))


def test_over_speakers_rates_that_vary_together_reach_further():
    """Both parts of a cost add up where they vary as one, and cancel where they oppose."""
    wave = np.array([0.01, -0.01, 0.01, -0.01])
    other = np.array([0.01, 0.01, -0.01, -0.01])
    reaches = {}
    for name, second in (("as one", wave), ("apart", other), ("opposed", -wave)):
        drawn = np.stack([0.1 + wave, 0.3 + 3 * second])
        rates = Rates(np.array([0.1, 0.3]), np.ones(2), np.full(2, 500.0), drawn)
        interval = lowest_interval(0.4, np.full(4, 0.4), rates, groups=20)
        reaches[name] = np.array([0.4 - interval.low, interval.high - 0.4])
    # (a + b)^2 + (a - b)^2 = 2 (a^2 + b^2) of the reaches a and b of each rate.
    together = reaches["as one"] ** 2 + reaches["opposed"] ** 2
    assert together == pytest.approx(2 * reaches["apart"] ** 2, rel=1e-9)
    assert (reaches["opposed"] < reaches["apart"]).all()
    assert (reaches["apart"] < reaches["as one"]).all()
