"""How often each interval that is printed covers the value of the population, by simulation.

Sets of trials are drawn from distributions whose true values are known. A share of .93 to .97 of
them is to be covered where 95 % are stated; over few speakers an interval may be too wide. With
so few sets the share itself is known only to some points: what is asserted is that a true share of
.93 to .97 is not contradicted, by the .1 % and 99.9 % quantiles of the binomial distribution.
"""

import numpy as np
import pytest
from scipy import stats

from asdf.evaluation import Scores, Threshold, confidence_intervals, decide, paired_test
from asdf.metrics.bootstrap import Interval
from asdf.metrics.tandem import TANDEM
from asdf.segments import Segment
from asdf.tasks.localisation.located_measures import (
    LocatedRecording,
    agreement_of,
    localisation,
    localisation_intervals,
    pooled_stretches,
    range_eer,
)
from asdf.tasks.sasv.sasv_files import SasvScores, SasvTrials
from asdf.tasks.sasv.sasv_measures import DRAWN, summarise_sasv
from asdf.tasks.studies.over_seeds import compare_seeds, draw_seeds, spreads
from asdf.tasks.tracing.source_measures import evaluate_sources
from asdf.tasks.tracing.source_scores import SourceScores
from benchmarks.interval_coverage import GRID, SHAPES, Population
from tests.unit.metrics.strategies import scores_of

pytestmark = pytest.mark.slow

LOWEST, HIGHEST = 0.93, 0.97
REPLICATES = 200


def holds(intervals: list[Interval], truth: float, *, lowest=LOWEST, highest=HIGHEST) -> None:
    """Assert that as many intervals have the truth as a true share within bounds allows."""
    covered = sum(interval.low <= truth <= interval.high for interval in intervals)
    sets = len(intervals)
    fewest = stats.binom.ppf(0.001, sets, lowest)
    most = stats.binom.ppf(0.999, sets, highest)
    share = covered / sets
    assert fewest <= covered <= most, f"{share:.3f} of {sets} sets, {fewest} to {most} expected"


@pytest.mark.parametrize(
    ("shape", "eer", "trials"),
    [
        ("normal", 0.05, (80, 120)),
        ("normal", 0.2, (80, 120)),
        ("normal", 0.1, (196, 227)),
        ("wide spoofs", 0.1, (80, 120)),
        ("wide bona fide", 0.1, (80, 120)),
        ("skewed", 0.35, (196, 227)),
        ("skewed apart", 0.2, (80, 120)),
        ("heavy tails", 0.05, (196, 227)),
        ("normal", 0.1, (500, 5000)),
        ("wide bona fide", 0.2, (1000, 2000)),
    ],
)
def test_eer_and_min_dcf_over_trials(shape, eer, trials):
    population = Population(SHAPES[shape], eer)
    rng = np.random.default_rng(1)
    eers, min_dcfs = [], []
    for _ in range(300):
        scores = scores_of(*population.draw(trials, rng))
        intervals = confidence_intervals(scores, replicates=REPLICATES)
        eers.append(intervals.eer)
        min_dcfs.append(intervals.min_dcf)
    # Error rates of so few trials are steps of one trial, which widen percentiles a little.
    holds(eers, eer, highest=0.98)
    holds(min_dcfs, population.min_dcf(), highest=0.98)


@pytest.mark.parametrize(
    ("shape", "eer", "trials", "sets"),
    [
        ("steps of .5", 0.2, (80, 120), 300),
        ("steps of 1", 0.35, (196, 227), 800),
        ("steps of 2", 0.35, (80, 120), 800),
    ],
)
def test_min_dcf_of_scores_that_are_tied(shape, eer, trials, sets):
    population = Population(SHAPES[shape], eer)
    truth = population.min_dcf()
    rng = np.random.default_rng(2)
    intervals = []
    for seed in range(sets):
        scores = scores_of(*population.draw(trials, rng))
        found = confidence_intervals(scores, replicates=REPLICATES, seed=seed)
        intervals.append(found.min_dcf)
    holds(intervals, truth, highest=0.98)
    # A bias that few thresholds do not have would lift the lower end above the truth.
    too_high = sum(interval.low > truth for interval in intervals)
    assert too_high <= stats.binom.ppf(0.999, sets, 0.03)


@pytest.mark.parametrize("errors_expected", [0.2, 1.0])
def test_hardly_any_error(errors_expected):
    """Most of these sets have no error, or one: a bound of 0.00 would cover nothing."""
    eer = errors_expected / 120
    population = Population(SHAPES["normal"], eer)
    rng = np.random.default_rng(3)
    eers, min_dcfs, recalls = [], [], []
    without = 0
    threshold = Threshold(float(population.spoof.isf(eer)), "")
    for _ in range(300):
        scores = scores_of(*population.draw((100, 120), rng))
        intervals = confidence_intervals(scores, replicates=REPLICATES)
        without += intervals.eer.value == 0
        eers.append(intervals.eer)
        min_dcfs.append(intervals.min_dcf)
        recalls.append(decide(scores, threshold, replicates=REPLICATES).intervals["recall_spoof"])
    assert without > 30
    # One error among few moves an EER by a step that no percentile sees the half of.
    holds(eers, eer, lowest=0.85, highest=1)
    holds(min_dcfs, population.min_dcf(), highest=1)
    holds([i for i in recalls if i.value == 1], 1 - eer, highest=1)


def test_rates_of_decisions():
    rng = np.random.default_rng(4)
    threshold = Threshold(1.0, "")
    recall_spoof, recall_bona_fide = stats.norm.cdf(1.0), stats.norm.cdf(1.0)
    accuracy = stats.norm.cdf(1.0)
    found = {"accuracy": accuracy, "recall_spoof": recall_spoof}
    found |= {"recall_bona_fide": recall_bona_fide, "balanced_accuracy": accuracy}
    right, missed = 120 * recall_bona_fide, 120 * (1 - recall_bona_fide)
    false = 160 * (1 - recall_spoof)
    intervals = {name: [] for name in (*found, "f1_bona_fide", "macro_f1")}
    f1 = 2 * right / (2 * right + missed + false)
    other = 2 * 160 * recall_spoof / (2 * 160 * recall_spoof + missed + false)
    found |= {"f1_bona_fide": f1, "macro_f1": (f1 + other) / 2}
    for _ in range(400):
        scores = scores_of(rng.normal(2, 1, 120), rng.normal(0, 1, 160))
        decided = decide(scores, threshold, replicates=REPLICATES)
        for name, of_name in intervals.items():
            of_name.append(decided.intervals[name])
    for name, of_name in intervals.items():
        holds(of_name, float(found[name]))


def speakers_of(count: int, each: int) -> list[str]:
    return [f"s{i}" for i in np.repeat(np.arange(count), each).tolist()]


@pytest.mark.parametrize("speakers", [6, 10, 17])
def test_over_speakers(speakers):
    """Each speaker's trials share an offset of deviation .7."""
    rng = np.random.default_rng(5)
    spread = np.hypot(1, 0.7)
    population = Population((stats.norm(0, spread), stats.norm(0, spread), 0), 0.2)
    names = speakers_of(speakers, 12) + speakers_of(speakers, 20)
    eers, min_dcfs, recalls = [], [], []
    threshold = Threshold(float(population.spoof.isf(0.2)), "")
    for _ in range(300):
        offset = rng.normal(0, 0.7, speakers)
        bona_fide = rng.normal(population.shift, 1, 12 * speakers) + np.repeat(offset, 12)
        spoof = rng.normal(0, 1, 20 * speakers) + np.repeat(offset, 20)
        scores = scores_of(bona_fide, spoof)
        intervals = confidence_intervals(scores, speakers=names, replicates=REPLICATES)
        eers.append(intervals.eer)
        min_dcfs.append(intervals.min_dcf)
        decided = decide(scores, threshold, speakers=names, replicates=REPLICATES)
        recalls.append(decided.speaker_intervals["recall_spoof"])
    holds(eers, 0.2, highest=0.98)
    # Few speakers: too wide rather than too narrow.
    holds(min_dcfs, population.min_dcf(), highest=1)
    holds(recalls, 0.8, lowest=0.91, highest=0.98)


def sasv_scores(rng: np.random.Generator, speakers: int = 0) -> SasvScores:
    kinds = np.repeat([0, 1, 2], [100, 200, 300]).astype(np.int8)
    names = [f"s{i}" for i in rng.integers(max(speakers, 1), size=600).tolist()]
    trials = SasvTrials(names, [f"u{i}" for i in range(600)], kinds)
    return SasvScores(trials, sasv=rng.normal(np.array([3.0, 0.0, 1.0])[kinds], 1))


@pytest.mark.parametrize("speakers", [0, 12])
def test_sasv(speakers):
    costs = (
        TANDEM.miss * TANDEM.target_prior * stats.norm.cdf(GRID - 3)
        + TANDEM.false_alarm * TANDEM.nontarget_prior * stats.norm.sf(GRID)
        + TANDEM.spoof_false_alarm * TANDEM.spoof_prior * stats.norm.sf(GRID - 1)
    )
    false_alarms = 10 * TANDEM.nontarget_prior + 10 * TANDEM.spoof_prior
    impostors = (2 * stats.norm.sf(GRID) + 3 * stats.norm.sf(GRID - 1)) / 5
    crossing = int(np.argmin(np.abs(stats.norm.cdf(GRID - 3) - impostors)))
    truths = {
        "a_dcf": costs.min() / min(TANDEM.target_prior, false_alarms),
        "sasv_eer": impostors[crossing],
        "sv_eer": stats.norm.cdf(-1.5),
        "spf_eer": stats.norm.cdf(-1.0),
    }
    rng = np.random.default_rng(6)
    found = {name: [] for name in DRAWN}
    for _ in range(150):
        summary = summarise_sasv("s", sasv_scores(rng, speakers), replicates=100)
        intervals = summary.speaker_intervals if speakers else summary.intervals
        for name in DRAWN:
            found[name].append(intervals[name])
    for name in DRAWN:
        holds(found[name], float(truths[name]), highest=1 if speakers else 0.98)


def seeds_of(rng: np.random.Generator, count: int) -> list[Scores]:
    """Return scores of networks that share half of their noise and differ in their quality."""
    shared = rng.normal(size=200)
    labels = np.repeat([1, 0], [80, 120])
    networks = []
    for _ in range(count):
        gap = rng.normal(2.0, 0.3)
        own = rng.normal(size=200)
        scores = (shared + own) / np.sqrt(2) + gap * labels
        networks.append(Scores([f"u{i:03d}" for i in range(200)], labels, scores))
    return networks


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_over_seeds(seeds):
    rng = np.random.default_rng(7)
    gaps = rng.normal(2.0, 0.3, 2000)
    # One network is a mean of itself: its own trials alone are drawn.
    deviation = 0.3 if seeds > 1 else 0.0
    gaps = 2.0 + (gaps - 2.0) * deviation / 0.3
    grid = np.linspace(-6, 8, 3001)
    false_alarms = stats.norm.sf(grid)
    min_dcf = np.mean([(1.9 * stats.norm.cdf(grid - gap) + false_alarms).min() for gap in gaps])
    names = [str(seed) for seed in range(seeds)]
    eers, min_dcfs = [], []
    for _ in range(120):
        networks = seeds_of(rng, seeds)
        if seeds == 1:
            networks = [scores_of(rng.normal(2, 1, 80), rng.normal(0, 1, 120))]
        draws = draw_seeds(names, networks, replicates=100, is_compared=False)
        eer, cost = spreads(draws)
        eers.append(eer.interval)
        min_dcfs.append(cost.interval)
    holds(eers, float(stats.norm.cdf(-gaps / 2).mean()), highest=0.99)
    holds(min_dcfs, float(min_dcf), highest=0.99)


def test_differences_over_seeds():
    rng = np.random.default_rng(8)
    names = ["0", "1", "2"]
    found = []
    for _ in range(150):
        networks = seeds_of(rng, 6)
        first = draw_seeds(names, networks[:3], replicates=100)
        second = draw_seeds(["3", "4", "5"], networks[3:], replicates=100)
        found.append(compare_seeds(first, second).difference)
    holds([each.eer for each in found], 0.0, highest=0.99)
    holds([each.min_dcf for each in found], 0.0, highest=0.99)


@pytest.mark.parametrize(("gap", "sets"), [(1.683, 600), (2.5, 300)])
def test_paired_differences(gap, sets):
    """Two systems whose scores correlate by .5; the first is equal to the second, or worse."""
    rng = np.random.default_rng(9)
    labels = np.repeat([1, 0], [80, 120])
    ids = [f"u{i}" for i in range(200)]
    found = []
    for _ in range(sets):
        shared = rng.normal(size=200)
        systems = []
        for own_gap in (1.683, gap):
            own = rng.normal(size=200)
            systems.append(Scores(ids, labels, (shared + own) / np.sqrt(2) + own_gap * labels))
        found.append(paired_test(*systems, replicates=REPLICATES))
    costs = [(1.9 * stats.norm.cdf(GRID - g) + stats.norm.sf(GRID)).min() for g in (1.683, gap)]
    truth = float(stats.norm.cdf(-gap / 2) - stats.norm.cdf(-1.683 / 2))
    # EERs move in steps of one trial, and equal ones differ in fewer sets than stated.
    holds([each.eer for each in found], truth, highest=0.98)
    holds([each.min_dcf for each in found], float(costs[1] - costs[0]), highest=0.98)
    for each in found:
        for interval in (each.eer, each.min_dcf):
            assert (interval.p_value < 0.05) == (not interval.low <= 0 <= interval.high)
    by_eer = sum(each.eer.p_value < 0.05 for each in found)
    by_min_dcf = sum(each.min_dcf.p_value < 0.05 for each in found)
    if gap == 1.683:
        low, high = stats.binom.ppf(0.001, sets, 0.03), stats.binom.ppf(0.999, sets, 0.07)
        assert low <= by_min_dcf <= high and by_eer <= high
    else:
        assert min(by_eer, by_min_dcf) > 0.6 * sets


def located(rng: np.random.Generator, count: int) -> list[LocatedRecording]:
    recordings = []
    for index in range(count):
        scores = rng.normal(1, 1, 50) + rng.normal(0, 0.4)
        parts = ()
        if index % 2:
            parts = (Segment(0.2, 0.6),)
            scores[10:30] -= 2
        recordings.append(LocatedRecording(scores, 0.02, parts, 1.0))
    return recordings


@pytest.mark.parametrize("recordings", [12, 60])
def test_localisation(recordings):
    rng = np.random.default_rng(10)
    population = pooled_stretches(located(rng, 20_000))
    agreement = agreement_of(population, 0.0)
    rates, f1s, ious = [], [], []
    for _ in range(200):
        drawn = located(rng, recordings)
        measured = localisation(drawn, threshold=0.0)
        intervals = localisation_intervals(drawn, measured, replicates=REPLICATES)
        rates.append(intervals["range_eer"])
        f1s.append(intervals["f1"])
        ious.append(intervals["iou"])
    holds(rates, range_eer(population).rate, highest=0.98)
    holds(f1s, agreement.f1, highest=0.98)
    holds(ious, agreement.iou, highest=0.98)


def traced(rng: np.random.Generator, count: int) -> SourceScores:
    classes = ("A", "B", "C")
    truths = rng.integers(4, size=count)
    logits = rng.normal(size=(count, 3))
    for kind in range(3):
        logits[truths == kind, kind] += 2
    names = [("A", "B", "C", "X")[kind] for kind in truths.tolist()]
    return SourceScores.of_logits([f"u{i}" for i in range(count)], "attack", classes, names, logits)


def test_sources():
    rng = np.random.default_rng(11)
    population = evaluate_sources(traced(rng, 100_000))
    truths = population.values
    assert {"accuracy", "unknown_eer", "oscr"} <= set(truths)
    found = {name: [] for name in truths}
    for _ in range(200):
        result = evaluate_sources(traced(rng, 200), replicates=100)
        for name, interval in result.intervals.items():
            found[name].append(interval)
    for name, intervals in found.items():
        # With 100 replicates the ends themselves are noisy.
        holds(intervals, truths[name], lowest=0.92, highest=0.98)
