"""Coverage of several methods for intervals of the minDCF, by simulation.

    python -m benchmarks.interval_coverage                      # 400 sets of each population
    python -m benchmarks.interval_coverage --trials 196 227 --methods here percentiles

Sets of trials are drawn from populations with a known lowest cost: six shapes of the scores of both
classes, and normal ones rounded to half a deviation, one and two; each with EERs of 5, 10, 20 and
35 %. 95 % intervals should cover the truth in .93 to .97 of sets. The methods other than `here` are
from the literature:

percentiles, basic, bias-corrected, accelerated (BCa), studentised: Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993.
m-out-of-n: draws of n^(3/4) trials, scaled by the root; Bickel, Götze and van Zwet, Statistica
    Sinica 7, 1997.
threshold apart: the cost of one replicate at the best threshold of another.
double: percentiles at the levels that a second bootstrap in each replicate asks for; Hall and
    Martin, Biometrika 75, 1988.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from asdf.metrics.detection import ASVSPOOF5
from asdf.metrics.intervals import Rates, lowest_interval

Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.intp]
Bounds = tuple[float, float]

REPLICATES = 200
INNER = 25
EERS = (0.05, 0.1, 0.2, 0.35)
TAILS = (0.025, 0.975)
WEIGHTS = np.array([ASVSPOOF5.miss_weight, ASVSPOOF5.false_alarm_weight]) / ASVSPOOF5.default
# Thresholds at which the costs of populations are computed.
GRID = np.linspace(-15, 25, 200_001)
NORMAL = stats.norm()

Shape = tuple[Any, Any, float]
"""The distributions of bona fide and spoof scores, and the step that scores are rounded to."""

SHAPES: dict[str, Shape] = {
    "normal": (NORMAL, NORMAL, 0),
    "wide spoofs": (NORMAL, stats.norm(0, 2), 0),
    "wide bona fide": (stats.norm(0, 2), NORMAL, 0),
    "skewed": (stats.gumbel_l(), stats.gumbel_r(), 0),
    "skewed apart": (stats.gumbel_r(), stats.gumbel_l(), 0),
    "heavy tails": (stats.t(3), stats.t(3), 0),
    "steps of .5": (NORMAL, NORMAL, 0.5),
    "steps of 1": (NORMAL, NORMAL, 1),
    "steps of 2": (NORMAL, NORMAL, 2),
}


class Population:
    """Bona fide and spoof scores of two distributions, shifted apart to an EER."""

    def __init__(self, shape: Shape, eer: float) -> None:
        self.eer = eer
        self.bona_fide, self.spoof, self.step = shape
        # The threshold at which the spoof's rate is the EER; bona fide is shifted to have it too.
        self.shift = float(self.spoof.isf(eer) - self.bona_fide.ppf(eer))

    def min_dcf(self) -> float:
        """Return the lowest cost over all thresholds."""
        thresholds = (np.arange(-40, 80) - 0.5) * self.step if self.step else GRID
        misses = self.bona_fide.cdf(thresholds - self.shift)
        costs = WEIGHTS[0] * misses + WEIGHTS[1] * self.spoof.sf(thresholds)
        return float(min(1.0, costs.min()))

    def draw(self, trials: tuple[int, int], rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the scores of the given numbers of bona fide and spoof trials."""
        bona_fide = self.bona_fide.rvs(trials[0], random_state=rng) + self.shift
        spoof = self.spoof.rvs(trials[1], random_state=rng)
        if self.step:
            bona_fide = np.round(bona_fide / self.step) * self.step
            spoof = np.round(spoof / self.step) * self.step
        return bona_fide, spoof


class Drawn:
    """The costs of a set at each threshold, and of its replicates.

    Attributes:
        trials: The cell of each trial, for either class; a cell has the trials of one score.
        costs: Cost at each threshold, with the first cells rejected, (cells + 1,).
        replicates: Costs of the replicates, (replicates, cells + 1).
    """

    def __init__(self, bona_fide: Floats, spoof: Floats, rng: np.random.Generator) -> None:
        values, cells = np.unique(np.concatenate([bona_fide, spoof]), return_inverse=True)
        self.rng = rng
        self.cells = values.size
        self.trials = (cells[: bona_fide.size], cells[bona_fide.size :])
        self.sizes = np.array([bona_fide.size, spoof.size])
        self.rates = _rates(self.trials[0][None], self.trials[1][None], self.cells)[:, 0]
        self.costs = WEIGHTS @ self.rates
        self.best = int(self.costs.argmin())
        self.value = float(self.costs[self.best])
        self.drawn = self.draw(self.sizes, REPLICATES)
        self.replicate_rates = _rates(*self.drawn, self.cells)
        self.replicates = np.tensordot(WEIGHTS, self.replicate_rates, 1)
        self.minima: Floats = self.replicates.min(axis=1)

    def draw(self, sizes: npt.NDArray[np.integer], count: int) -> tuple[Cells, Cells]:
        """Draw trials of either class with replacement, `count` times."""
        first, second = self.trials
        of_first = first[self.rng.integers(first.size, size=(count, sizes[0]))]
        of_second = second[self.rng.integers(second.size, size=(count, sizes[1]))]
        return of_first, of_second


def _rates(bona_fide: Cells, spoof: Cells, cells: int) -> Floats:
    """Return both error rates of rows of trials, (2, rows, cells + 1)."""
    missed, rejected = _shares(bona_fide, cells), _shares(spoof, cells)
    return np.stack([missed, 1 - rejected])


def _shares(trials: Cells, cells: int) -> Floats:
    rows, size = trials.shape
    numbered = trials + cells * np.arange(rows)[:, None]
    counts = np.bincount(numbered.ravel(), minlength=rows * cells).reshape(rows, cells)
    totals = np.pad(counts, ((0, 0), (1, 0))).cumsum(axis=1)
    shares: Floats = totals / size
    return shares


def here(drawn: Drawn) -> Bounds:
    """Return the interval used in the reports."""
    rates = Rates(drawn.rates[:, drawn.best], WEIGHTS, drawn.sizes.astype(np.float64))
    interval = lowest_interval(drawn.value, drawn.minima, rates)
    return interval.low, interval.high


def percentiles(drawn: Drawn) -> Bounds:
    """Return the quantiles of the replicates."""
    return _between(drawn.minima, TAILS)


def basic(drawn: Drawn) -> Bounds:
    """Return the quantiles, reflected at the measured value."""
    low, high = percentiles(drawn)
    return 2 * drawn.value - high, 2 * drawn.value - low


def bias_corrected(drawn: Drawn) -> Bounds:
    """Return the quantiles at levels that the share of lower replicates shifts."""
    return _shifted(drawn, 0.0)


def accelerated(drawn: Drawn) -> Bounds:
    """Return the quantiles of `bias_corrected`, with the acceleration of a jackknife."""
    left_out = []
    missed, false_alarms = drawn.trials
    boundary = np.arange(drawn.cells + 1)
    errs_of = (boundary > missed[:, None], boundary <= false_alarms[:, None])
    # The cost without one trial: the rate of the others of its class, and of the other class.
    for weight, rates, errs in zip(WEIGHTS, drawn.rates, errs_of, strict=True):
        size = len(errs)
        others = weight * (size * rates - errs) / (size - 1)
        minima = (drawn.costs - weight * rates + others).min(axis=1)
        left_out.append((size - 1) * (minima.mean() - minima) / size)
    influence = np.concatenate(left_out)
    spread = float((influence**2).sum()) ** 1.5
    return _shifted(drawn, float((influence**3).sum()) / (6 * spread) if spread else 0.0)


def studentised(drawn: Drawn) -> Bounds:
    """Return the interval of replicates' distances in binomial standard deviations."""
    at_best = drawn.replicates.argmin(axis=1)
    rates = np.take_along_axis(drawn.replicate_rates, at_best[None, :, None], axis=2)[..., 0]
    distances = (drawn.minima - drawn.value) / _deviation(drawn, rates)
    low, high = _between(distances, TAILS)
    deviation = float(_deviation(drawn, drawn.rates[:, [drawn.best]])[0])
    return drawn.value - high * deviation, drawn.value - low * deviation


def m_out_of_n(drawn: Drawn) -> Bounds:
    """Return the interval of draws of fewer trials, scaled."""
    sizes = np.ceil(drawn.sizes**0.75).astype(np.intp)
    rates = _rates(*drawn.draw(sizes, REPLICATES), drawn.cells)
    minima = np.tensordot(WEIGHTS, rates, 1).min(axis=1)
    scale = float(np.sqrt(sizes.sum() / drawn.sizes.sum()))
    low, high = _between(scale * (minima - drawn.value), TAILS)
    return drawn.value - high, drawn.value - low


def threshold_apart(drawn: Drawn) -> Bounds:
    """Return the quantiles of a replicate's cost at the best threshold of the next one."""
    next_best = np.roll(drawn.replicates.argmin(axis=1), -1)
    return _between(drawn.replicates[np.arange(REPLICATES), next_best], TAILS)


def double(drawn: Drawn) -> Bounds:
    """Return the quantiles at the levels that cover the measured value in inner bootstraps."""
    levels = np.empty(REPLICATES)
    for row, (bona_fide, spoof) in enumerate(zip(*drawn.drawn, strict=True)):
        inner = (
            bona_fide[drawn.rng.integers(bona_fide.size, size=(INNER, bona_fide.size))],
            spoof[drawn.rng.integers(spoof.size, size=(INNER, spoof.size))],
        )
        minima = np.tensordot(WEIGHTS, _rates(*inner, drawn.cells), 1).min(axis=1)
        levels[row] = (minima < drawn.value).mean() + (minima == drawn.value).mean() / 2
    return _between(drawn.minima, _between(levels, TAILS))


def _shifted(drawn: Drawn, acceleration: float) -> Bounds:
    normal = NormalDist()
    lower = (drawn.minima < drawn.value).mean() + (drawn.minima == drawn.value).mean() / 2
    shift = normal.inv_cdf(float(np.clip(lower, 0.5 / REPLICATES, 1 - 0.5 / REPLICATES)))
    levels = []
    for tail in TAILS:
        moved = shift + normal.inv_cdf(tail)
        levels.append(normal.cdf(shift + moved / max(1e-3, 1 - acceleration * moved)))
    return _between(drawn.minima, (levels[0], levels[1]))


def _deviation(drawn: Drawn, rates: Floats) -> Floats:
    """Return the standard deviation of costs with these rates, (rates,); that of one error if 0."""
    sizes = drawn.sizes[:, None]
    bounded = np.clip(rates, 0.5 / sizes, 1 - 0.5 / sizes)
    variances = WEIGHTS[:, None] ** 2 * bounded * (1 - bounded) / sizes
    deviation: Floats = np.sqrt(variances.sum(axis=0))
    return deviation


def _between(values: Floats, levels: Bounds) -> Bounds:
    low, high = np.quantile(values, levels)
    return float(low), float(high)


METHODS: dict[str, Callable[[Drawn], Bounds]] = {
    "here": here,
    "percentiles": percentiles,
    "basic": basic,
    "bias-corrected": bias_corrected,
    "accelerated": accelerated,
    "studentised": studentised,
    "m-out-of-n": m_out_of_n,
    "threshold-apart": threshold_apart,
    "double": double,
}


def coverage(
    population: Population, methods: list[str], trials: tuple[int, int], sets: int
) -> Floats:
    """Return the proportions of sets whose interval is below, contains, or is above the truth.

    Returns:
        Proportions, (methods, 3).
    """
    rng = np.random.default_rng(1)
    truth = population.min_dcf()
    counts = np.zeros((len(methods), 3))
    for _ in range(sets):
        drawn = Drawn(*population.draw(trials, rng), rng)
        for row, method in enumerate(methods):
            low, high = METHODS[method](drawn)
            # All costs are at most 1, which a rounded bound may miss.
            side = 0 if min(1.0, high) < truth - 1e-9 else 1 + int(low > truth + 1e-9)
            counts[row, side] += 1
    return counts / sets


def main() -> None:
    """Print the shares of each population, then lowest, mean and highest of each method."""
    parser = argparse.ArgumentParser("python -m benchmarks.interval_coverage")
    parser.add_argument("--sets", type=int, default=400, help="of each population")
    parser.add_argument("--trials", type=int, nargs=2, default=(80, 120), help="of both classes")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    args = parser.parse_args()
    shares = []
    for shape in SHAPES:
        for eer in EERS:
            population = Population(SHAPES[shape], eer)
            covered = coverage(population, args.methods, tuple(args.trials), args.sets)[:, 1]
            shares.append(covered)
            row = "  ".join(f"{share:.3f}" for share in covered)
            print(f"{shape:15}{eer:5}  {population.min_dcf():.3f}  {row}", flush=True)
    for method, of_method in zip(args.methods, np.array(shares).T, strict=True):
        inside = ((of_method >= 0.93) & (of_method <= 0.97)).sum()
        low, mean, high = of_method.min(), of_method.mean(), of_method.max()
        print(f"{method:16} {low:.3f} {mean:.3f} {high:.3f}  {inside} of {of_method.size} inside")


if __name__ == "__main__":
    main()
