"""Results over seeds: mean, deviation, interval, and tests between two configurations.

Invariant: both sides of a difference are measured on the same draws of the trials (see
`seed_draws`), so that what they share cancels out, and the same files give the same numbers.

The interval of a mean is that of a bootstrap on two levels. A replicate draws the seeds with
replacement and the trials, or whole speakers, with replacement, and is the mean of the metric over
the drawn seeds on the drawn trials. It covers what another training of the same settings and other
trials of the same kind would change. It does not cover other corpora, and with few seeds it is too
narrow: drawing from n seeds shows (n - 1) / n of their variance, half of it with 2 seeds and two
thirds with 3; of one seed nothing is known, and its interval is over the trials alone.

Source: Davison and Hinkley, Bootstrap Methods and their Application, 1997, 3.8 (nested data).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import Interval, Intervals, percentile_interval, tested_interval
from asdf.metrics.detection import Floats
from asdf.metrics.seed_draws import SeedDraws
from asdf.metrics.student import two_sided_p
from asdf.runs.seeds import generator

MIN_SEEDS = 3
"""Fewer seeds than this per side say too little for a test over seeds alone."""


@dataclass(frozen=True)
class Spread:
    """The values of a metric over seeds.

    Attributes:
        deviation: the standard deviation with n - 1; None for a single seed.
        interval: of the mean, see above; None where nothing was drawn.
    """

    values: tuple[float, ...]
    mean: float
    deviation: float | None
    interval: Interval | None = None


@dataclass(frozen=True)
class SeedDifference:
    """The difference second - first of two means over seeds; below zero the second is better.

    Attributes:
        difference: with intervals and p-values of the bootstrap on two levels.
        is_paired: both have the same seeds, which are drawn together.
        seeds: how many each has.
        eer_welch_p: p-value of Welch's test of the EERs over seeds alone; None with fewer than
            three seeds on a side.
    """

    difference: Intervals
    is_paired: bool
    seeds: tuple[int, int]
    eer_welch_p: float | None = None

    def reverse(self) -> SeedDifference:
        """Return the same test as first - second."""
        difference = Intervals(
            eer=_negative(self.difference.eer), min_dcf=_negative(self.difference.min_dcf)
        )
        return SeedDifference(difference, self.is_paired, self.seeds[::-1], self.eer_welch_p)


def _negative(interval: Interval) -> Interval:
    return Interval(-interval.value, -interval.high, -interval.low, interval.p_value)


def spread_of(values: Sequence[float] | Floats) -> Spread:
    """Return mean and standard deviation of the values of a metric, one per seed."""
    array = np.asarray(values, np.float64)
    # ddof=1: these seeds are a sample of all that might have been drawn.
    deviation = float(array.std(ddof=1)) if array.size > 1 else None
    return Spread(tuple(array.tolist()), float(array.mean()), deviation)


def spreads(draws: SeedDraws, *, level: float = 0.95, seed: int = 0) -> tuple[Spread, Spread]:
    """Return EER and minDCF over seeds, with the intervals of their means if anything was drawn."""
    eers = spread_of(draws.measured[:, 0])
    min_dcfs = spread_of(draws.measured[:, 1])
    if not draws.replicates:
        return eers, min_dcfs
    means = _mean_draws(draws, _seed_weights(len(draws.seeds), draws.replicates, seed, "seeds"))
    return (
        replace(eers, interval=percentile_interval(eers.mean, means[0], level)),
        replace(min_dcfs, interval=percentile_interval(min_dcfs.mean, means[1], level)),
    )


def compare_seeds(
    first: SeedDraws, second: SeedDraws, *, level: float = 0.95, seed: int = 0
) -> SeedDifference:
    """Test the difference of the means of two configurations over seeds and trials.

    Seeds are paired if both have the same, else drawn independently. The two-sided p-value is twice
    the smaller proportion of replicates on either side of zero. With few seeds it is too small, as
    the interval is too narrow: Welch's test over seeds alone does not have that fault, but knows
    nothing of the trials.

    Raises:
        AsdfError: the two were not scored on the same trials, or nothing was drawn.
    """
    if first.trials != second.trials or first.replicates != second.replicates:
        raise AsdfError(
            "the two were not scored on the same trials. Compare score files of the same set."
        )
    if not first.replicates:
        raise AsdfError("a test needs replicates of the bootstrap: --replicates 1000.")
    is_paired = len(first.seeds) > 1 and set(first.seeds) == set(second.seeds)
    weights = _seed_weights(len(first.seeds), first.replicates, seed, "seeds")
    other_weights = _seed_weights(len(second.seeds), second.replicates, seed, "other seeds")
    if is_paired:
        second = _in_order_of(second, first.seeds)
        other_weights = weights
    drawn = _mean_draws(second, other_weights) - _mean_draws(first, weights)
    measured = second.measured.mean(axis=0) - first.measured.mean(axis=0)
    return SeedDifference(
        difference=Intervals(
            eer=tested_interval(float(measured[0]), drawn[0], level),
            min_dcf=tested_interval(float(measured[1]), drawn[1], level),
        ),
        is_paired=is_paired,
        seeds=(len(first.seeds), len(second.seeds)),
        eer_welch_p=welch_test(first.measured[:, 0], second.measured[:, 0]),
    )


def welch_test(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float | None:
    """Return the two-sided p-value of equal means, the variances not assumed to be equal.

    None with fewer than three values on a side. Source: Welch, Biometrika 34, 1947, with the
    degrees of freedom of Satterthwaite, 1946.
    """
    a = np.asarray(first, np.float64)
    b = np.asarray(second, np.float64)
    if min(a.size, b.size) < MIN_SEEDS:
        return None
    # The variance of each mean.
    of_a = float(a.var(ddof=1)) / a.size
    of_b = float(b.var(ddof=1)) / b.size
    difference = float(b.mean() - a.mean())
    variance = of_a + of_b
    if variance == 0:
        # Seeds that all agree: the means differ for sure, or not at all.
        return float(difference == 0)
    degrees = variance**2 / (of_a**2 / (a.size - 1) + of_b**2 / (b.size - 1))
    return two_sided_p(difference / math.sqrt(variance), degrees)


def _seed_weights(count: int, replicates: int, seed: int, purpose: str) -> Floats:
    """Return the share of each seed in each replicate, (seeds, replicates)."""
    rng = generator(seed, purpose)
    times = rng.multinomial(count, [1 / count] * count, size=replicates)
    shares: Floats = times.T / count
    return shares


def _mean_draws(draws: SeedDraws, weights: Floats) -> Floats:
    """Return the means over the drawn seeds, (2, replicates)."""
    means: Floats = (weights[:, None, :] * draws.drawn).sum(axis=0)
    return means


def _in_order_of(draws: SeedDraws, seeds: Sequence[str]) -> SeedDraws:
    order = [draws.seeds.index(name) for name in seeds]
    return replace(
        draws, seeds=tuple(seeds), measured=draws.measured[order], drawn=draws.drawn[order]
    )
