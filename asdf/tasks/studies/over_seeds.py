"""Statistics over seeds: mean, deviation, interval, and tests between two configurations.

Invariant: both sides of a difference are measured on the same draws of the trials (see
`seed_draws`), so that shared variation cancels, and the same files give the same numbers.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import Intervals, difference_interval
from asdf.metrics.intervals import Interval, lowest_interval, rate_interval, t_quantile, two_sided_p
from asdf.tasks.studies.seed_draws import SeedDraws

MIN_SEEDS = 3
"""Minimum number of seeds per side for a test over seeds alone."""


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
        difference = Intervals(
            eer=_negative(self.difference.eer), min_dcf=_negative(self.difference.min_dcf)
        )
        return SeedDifference(difference, self.is_paired, self.seeds[::-1], self.eer_welch_p)


def _negative(interval: Interval) -> Interval:
    return Interval(-interval.value, -interval.high, -interval.low, interval.p_value)


def spread_of(values: Sequence[float] | Floats) -> Spread:
    """Return mean and standard deviation of the values of a metric, one per seed."""
    array = np.asarray(values, np.float64)
    # ddof=1: these seeds are a sample of all possible seeds.
    deviation = float(array.std(ddof=1)) if array.size > 1 else None
    return Spread(tuple(array.tolist()), float(array.mean()), deviation)


def spreads(draws: SeedDraws, *, level: float = 0.95) -> tuple[Spread, Spread]:
    """Return EER and minDCF over seeds, with intervals of their means if there are draws."""
    eers = spread_of(draws.measured[:, 0])
    min_dcfs = spread_of(draws.measured[:, 1])
    if not draws.replicates:
        return eers, min_dcfs
    of_eers, of_min_dcfs = draws.drawn.mean(axis=0)  # (2, replicates)
    # Without an error, the class with fewer trials bounds the EER.
    fewer = int(draws.at_best.trials.min())
    rates = rate_interval(eers.mean, of_eers, trials=fewer, groups=draws.groups, level=level)
    costs = lowest_interval(
        min_dcfs.mean, of_min_dcfs, draws.at_best, groups=draws.groups, level=level
    )
    eers = replace(eers, interval=_add_seeds(rates, eers, level))
    return eers, replace(min_dcfs, interval=_add_seeds(costs, min_dcfs, level))


def _add_seeds(over_trials: Interval, spread: Spread, level: float) -> Interval:
    """Return an interval over trials, widened by the variation of the mean over seeds."""
    count = len(spread.values)
    if spread.deviation is None:
        return over_trials
    reach = t_quantile(level, count - 1) * spread.deviation / math.sqrt(count)
    below = math.hypot(spread.mean - over_trials.low, reach)
    above = math.hypot(over_trials.high - spread.mean, reach)
    low = max(0.0, spread.mean - below)
    high = min(1.0, spread.mean + above)
    return Interval(spread.mean, low, high, groups=over_trials.groups)


def compare_seeds(first: SeedDraws, second: SeedDraws, *, level: float = 0.95) -> SeedDifference:
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
        second = replace(
            second,
            seeds=tuple(first.seeds),
            measured=second.measured[order],
            drawn=second.drawn[order],
        )
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
            level=level,
        )
        intervals.append(interval)
    return SeedDifference(
        difference=Intervals(eer=intervals[0], min_dcf=intervals[1]),
        is_paired=is_paired,
        seeds=(len(first.seeds), len(second.seeds)),
        eer_welch_p=welch_test(first.measured[:, 0], second.measured[:, 0]),
    )


def _seed_variance(first: Floats, second: Floats, *, is_paired: bool) -> tuple[float, float]:
    """Return the variance of the difference of two means over seeds, and its degrees of freedom.

    A single seed adds nothing, because nothing is known about other seeds.
    """
    if is_paired:
        return float((second - first).var(ddof=1)) / first.size, first.size - 1
    variances = []
    weighted = 0.0
    for values in (first, second):
        if values.size > 1:
            variance = float(values.var(ddof=1)) / values.size
            variances.append(variance)
            weighted += variance**2 / (values.size - 1)
    total = sum(variances)
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
    # Variance of each mean.
    of_a = float(a.var(ddof=1)) / a.size
    of_b = float(b.var(ddof=1)) / b.size
    difference = float(b.mean() - a.mean())
    variance = of_a + of_b
    if variance == 0:
        # All seeds agree: the means either differ for certain, or not at all.
        return float(difference == 0)
    degrees = variance**2 / (of_a**2 / (a.size - 1) + of_b**2 / (b.size - 1))
    return two_sided_p(difference / math.sqrt(variance), degrees)
