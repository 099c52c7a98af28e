"""Statistics over seeds: mean, deviation, interval, and tests between two configurations.

Invariant: a draw depends only on the bootstrap's seed and the trials, so all networks that were
scored on the same trials are measured on the same draws, whatever else is compared and in whatever
order a score file is. Shared variation thus cancels in a difference, and the same files give the
same numbers. Different sets are drawn independently.

The interval of a mean covers the variation due to retraining with the same settings and to other
trials of the same kind, but not other corpora. It adds the squares of two parts: the interval of
the mean over draws of the trials, or of whole speakers, shared by all networks; and the interval
over seeds, Student's t times the deviation divided by the square root of the number of seeds. t is
12.7 for two seeds and 4.3 for three, because so few seeds say little about others. With one seed,
the interval is over the trials alone.

Sources: Zou and Donner, Statistics in Medicine 27, 2008, for adding squares; Satterthwaite,
Biometrics Bulletin 2, 1946, for the degrees of freedom of a difference.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import (
    BestPoint,
    Intervals,
    block_draws,
    counts_of_draws,
    difference_interval,
    speaker_block_draws,
    speaker_draws,
    speakers_of_fewer_class,
    trial_draws,
    weighted_metrics,
)
from asdf.metrics.detection import (
    ASVSPOOF5,
    DetCurve,
    DetectionCost,
    Weights,
    into_blocks,
    min_dcf_of,
)
from asdf.metrics.intervals import (
    Interval,
    Rates,
    lowest_interval,
    rate_interval,
    t_quantile,
    two_sided_p,
)
from asdf.metrics.summary import speakers_of
from asdf.runs.seeds import generator
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

_METRICS = 2
"""Number of metrics along an axis: EER and minDCF, in this order."""
# Number of networks with which `Rates` does not limit the number of independent trials.
_MANY = 1_000
_DRAWN = 4
"""Number of drawn values: the metrics, then miss and false alarm rate at the best threshold."""
MIN_SEEDS = 3
"""Minimum number of seeds per side for a test over seeds alone."""


@dataclass(frozen=True, eq=False)
class SeedDraws:
    """EER and minDCF of a configuration's networks, one per seed, on a set and on draws of it.

    Attributes:
        seeds: Seed of each network, by name.
        measured: Metrics on the set, (seeds, 2).
        drawn: Metrics on the draws, (seeds, 2, replicates).
        trials: Key that draws of the same trials share.
        at_best: Rates at the best threshold of each network, averaged over seeds.
        groups: Number of drawn speakers, for the class with fewer; None if trials were drawn.
    """

    seeds: tuple[str, ...]
    measured: Floats
    drawn: Floats
    trials: str
    at_best: Rates
    groups: int | None = None

    @property
    def replicates(self) -> int:
        """The number of draws."""
        return int(self.drawn.shape[-1])

    @property
    def by_speakers(self) -> bool:
        """Whether whole speakers were drawn instead of trials."""
        return self.groups is not None


def draw_seeds(
    seeds: Sequence[str],
    scores: Sequence[Scores],
    trials: TrialList | None = None,
    *,
    replicates: int = 1000,
    is_compared: bool = True,
    cost: DetectionCost = ASVSPOOF5,
) -> SeedDraws:
    """Measure the networks of a configuration on a set, and on draws of its trials.

    Args:
        scores: Scores of each seed's network.
        trials: Columns of the corpus for the trials; if all speakers are known, speakers are drawn.
        is_compared: Whether other networks on the same trials need the same draws; drawing for a
            single network that is not compared is much faster.

    Raises:
        AsdfError: the networks were not scored on the same trials; or as `confidence_intervals`.
    """
    # The trials are sorted by name, so draws do not depend on the order of a file.
    orders = [sorted(range(len(part)), key=part.ids.__getitem__) for part in scores]
    pairs = zip(scores, orders, strict=True)
    ordered = [part.select(np.array(order, np.intp)) for part, order in pairs]
    first = ordered[0]
    trials_key = _trials_key(first)
    if any(_trials_key(part) != trials_key for part in ordered[1:]):
        raise AsdfError(
            f"the networks of seeds {', '.join(seeds)} were not scored on the same trials "
            f"({', '.join(str(len(part)) for part in ordered)}). Score all of them on the same set."
        )
    curves = list(map(DetCurve.of_scores, ordered))
    blocks = list(map(into_blocks, curves))
    points = [BestPoint.of(of_curve, cost) for of_curve in blocks]
    speakers = speakers_of(first, trials)
    # The generator depends on the trials: sets are drawn independently, in any order.
    rng = generator(0, "trials", trials_key)
    # (curves, metrics, then rates, replicates)
    drawn = np.empty((len(curves), _DRAWN, replicates))
    done = 0
    draws: Iterable[Sequence[Weights]]
    if is_compared or len(curves) > 1:
        shared = trial_draws(first.labels, replicates, rng)
        if speakers is not None:
            shared = speaker_draws(first.labels, speakers, replicates, rng)
        draws = counts_of_draws(shared, blocks)
    elif speakers is None:
        draws = ([counts] for counts in block_draws(blocks[0], replicates, rng))
    else:
        own = speaker_block_draws(blocks[0], first.labels, speakers, replicates, rng)
        draws = ([counts] for counts in own)
    for of_curves in draws:
        for index, (counts, point) in enumerate(zip(of_curves, points, strict=True)):
            metrics = weighted_metrics(counts.bona_fide, counts.spoof, cost)
            values = np.concatenate([metrics, point.rates_of(counts)])
            drawn[index, :, done : done + values.shape[1]] = values
        done += values.shape[1]
    at_best = Rates(
        values=np.mean([point.rates for point in points], axis=0),
        weights=points[0].weights,
        trials=points[0].trials,
        drawn=drawn[:, _METRICS:].mean(axis=0),
        networks=len(curves),
    )
    measured = np.array([(curve.eer()[0], min_dcf_of(curve, cost)) for curve in curves])
    groups = None if speakers is None else speakers_of_fewer_class(first.labels, speakers)
    return SeedDraws(tuple(seeds), measured, drawn[:, :_METRICS], trials_key, at_best, groups)


def average_of_sets(sets: Sequence[SeedDraws]) -> SeedDraws:
    """Return the unweighted mean of the metrics over sets; the sets are drawn independently."""
    measured = np.mean([draws.measured for draws in sets], axis=0)  # (seeds, 2)
    drawn = np.mean([draws.drawn for draws in sets], axis=0)  # (seeds, 2, replicates)
    trials = " ".join(draws.trials for draws in sets)
    rates = [draws.at_best for draws in sets]
    at_best = Rates(
        values=np.mean([each.values for each in rates], axis=0),
        weights=rates[0].weights,
        # A mean of zero errors over sets is bounded as if all sets had as many trials as the
        # smallest.
        trials=len(sets) * np.min([each.trials for each in rates], axis=0),
        drawn=np.mean([each.drawn for each in rates if each.drawn is not None], axis=0),
        # Their mean varies as the draws do, whose number of independent trials is unknown.
        networks=_MANY * len(sets[0].seeds),
    )
    groups = [draws.groups for draws in sets if draws.groups is not None]
    return SeedDraws(
        sets[0].seeds, measured, drawn, trials, at_best, min(groups) if groups else None
    )


def _trials_key(scores: Scores) -> str:
    """Return a key that is equal for the same trials with the same labels."""
    # The digest of a list is of its ids alone.
    labels = hashlib.sha256(scores.labels.tobytes()).hexdigest()[:16]
    return f"{scores.digest()}-{labels}"


@dataclass(frozen=True)
class Spread:
    """The values of a metric over seeds.

    Attributes:
        deviation: Standard deviation with n - 1; None for a single seed.
        interval: Interval of the mean, see above; None if nothing was drawn.
    """

    values: tuple[float, ...]
    mean: float
    deviation: float | None
    interval: Interval | None = None


@dataclass(frozen=True)
class SeedDifference:
    """The difference second - first of two means over seeds; the second is better below zero.

    Attributes:
        difference: Difference with intervals and p-values over seeds and trials.
        is_paired: Whether both have the same seeds, whose differences are then used.
        seeds: Number of seeds of each side.
        eer_welch_p: Two-sided p-value of Welch's test of the EERs over seeds alone; None with fewer
            than three seeds on a side.
    """

    difference: Intervals
    is_paired: bool
    seeds: tuple[int, int]
    eer_welch_p: float | None = None

    def reverse(self) -> SeedDifference:
        """Return the same test with the sides exchanged."""
        tested = (self.difference.eer, self.difference.min_dcf)
        negative = [Interval(-one.value, -one.high, -one.low, one.p_value) for one in tested]
        difference = Intervals(*negative)
        return SeedDifference(difference, self.is_paired, self.seeds[::-1], self.eer_welch_p)


def spread_of(values: Sequence[float] | Floats) -> Spread:
    """Return mean and standard deviation of the values of a metric, one per seed."""
    array = np.asarray(values, np.float64)
    # ddof=1: these seeds are a sample of all possible seeds.
    deviation = float(array.std(ddof=1)) if array.size > 1 else None
    return Spread(tuple(array.tolist()), float(array.mean()), deviation)


def spreads(draws: SeedDraws) -> tuple[Spread, Spread]:
    """Return EER and minDCF over seeds, with intervals of their means if there are draws."""
    eers = spread_of(draws.measured[:, 0])
    min_dcfs = spread_of(draws.measured[:, 1])
    if not draws.replicates:
        return eers, min_dcfs
    of_eers, of_min_dcfs = draws.drawn.mean(axis=0)  # (2, replicates)
    # Without an error, the class with fewer trials bounds the EER.
    fewer = int(draws.at_best.trials.min())
    rates = rate_interval(eers.mean, of_eers, trials=fewer, groups=draws.groups)
    costs = lowest_interval(min_dcfs.mean, of_min_dcfs, draws.at_best, groups=draws.groups)
    eers = replace(eers, interval=_add_seeds(rates, eers))
    return eers, replace(min_dcfs, interval=_add_seeds(costs, min_dcfs))


def _add_seeds(over_trials: Interval, spread: Spread) -> Interval:
    """Return an interval over trials, widened by the variation of the mean over seeds."""
    if spread.deviation is None:
        return over_trials
    count = len(spread.values)
    reach = t_quantile(0.95, count - 1) * spread.deviation / math.sqrt(count)
    low = max(0.0, spread.mean - math.hypot(spread.mean - over_trials.low, reach))
    high = min(1.0, spread.mean + math.hypot(over_trials.high - spread.mean, reach))
    return Interval(spread.mean, low, high, groups=over_trials.groups)


def compare_seeds(first: SeedDraws, second: SeedDraws) -> SeedDifference:
    """Test the difference of the means of two configurations over seeds and trials.

    Seeds are paired if both sides have the same ones. The two-sided p-value is that of Student's t
    for the difference divided by its standard deviation. The variance is the sum of those over
    draws of the trials and over seeds; Welch's test over seeds alone ignores the trials.

    Raises:
        AsdfError: the two were not scored on the same trials, or nothing was drawn.
    """
    if first.trials != second.trials or first.replicates != second.replicates:
        raise AsdfError(
            "the two were not scored on the same trials. Compare score files of the same set."
        )
    if not first.replicates:
        raise AsdfError("a test needs replicates of the bootstrap: --replicates 1000.")
    # A single seed shows no variation between seeds, so there is nothing to pair.
    is_paired = len(first.seeds) > 1 and set(first.seeds) == set(second.seeds)
    if is_paired:
        order = [second.seeds.index(name) for name in first.seeds]
        measured, drawn = second.measured[order], second.drawn[order]
        second = replace(second, seeds=first.seeds, measured=measured, drawn=drawn)
    intervals = []
    for metric in (0, 1):
        values = (first.measured[:, metric], second.measured[:, metric])
        of_seeds, degrees = _seed_variance(*values, is_paired=is_paired)
        interval = difference_interval(
            np.array([values[0].mean(), values[1].mean()]),
            np.stack([first.drawn[:, metric].mean(axis=0), second.drawn[:, metric].mean(axis=0)]),
            groups=first.groups,
            of_seeds=of_seeds,
            seed_degrees=degrees,
        )
        intervals.append(interval)
    seeds = (len(first.seeds), len(second.seeds))
    welch_p = welch_test(first.measured[:, 0], second.measured[:, 0])
    return SeedDifference(Intervals(*intervals), is_paired, seeds, welch_p)


def _seed_variance(first: Floats, second: Floats, *, is_paired: bool) -> tuple[float, float]:
    """Return the variance of the difference of two means over seeds, and its degrees of freedom.

    A single seed adds nothing, because nothing is known about other seeds.
    """
    if is_paired:
        return float((second - first).var(ddof=1)) / first.size, first.size - 1
    total = weighted = 0.0
    for values in (first, second):
        if values.size > 1:
            variance = float(values.var(ddof=1)) / values.size
            total += variance
            weighted += variance**2 / (values.size - 1)
    return total, total**2 / weighted if weighted else math.inf


def welch_test(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float | None:
    """Return the two-sided p-value of equal means, without assuming equal variances.

    The result is None with fewer than three values on a side. Source: Welch, Biometrika 34, 1947,
    with the degrees of freedom of Satterthwaite, 1946.
    """
    a = np.asarray(first, np.float64)
    b = np.asarray(second, np.float64)
    if min(a.size, b.size) < MIN_SEEDS:
        return None
    difference = float(b.mean() - a.mean())
    variance, degrees = _seed_variance(a, b, is_paired=False)
    if variance == 0:
        # All seeds agree: the means either differ for certain, or not at all.
        return float(difference == 0)
    return two_sided_p(difference / math.sqrt(variance), degrees)
