"""Intervals from bootstrap replicates, for rates, lowest costs and differences.

Invariant: an interval covers the value of the population that the trials are drawn from in about
the stated proportion of sets of trials. That of a lowest cost covers the lowest cost of the
population, at its own best threshold. benchmarks/RESULTS.md has the measured proportions.

Rates over trials have percentile intervals. Over groups of trials, such as speakers, few groups
underestimate the variation between them, and the interval is expanded accordingly: Hesterberg,
"What teachers should know about the bootstrap", The American Statistician 69, 2015.

The lowest cost of a set is lower than that of its population, since its threshold is adapted to the
set. Near the best threshold, costs are a random walk on a parabola, whose minimum lies below that
of the parabola by an amount proportional to the power 2/3 of the walk's variance (Kim and Pollard,
"Cube root asymptotics", Annals of Statistics 18, 1990). A bootstrap adds a second walk of the same
variance. Its replicates therefore lie below the measured cost by 2^(2/3) - 1 of the measured cost's
own bias, and their percentiles do not contain the true cost. Scores in steps have few thresholds
and no such walk: there the measured cost is hardly too low, but its replicates are. The bias is
therefore only known between bounds. The upper end is raised by the amount by which replicates lie
too low, and the possible remaining bias counts as a deviation; the lower end is not raised. The
distances of both ends are those for the cost at a fixed threshold, from intervals of its error
rates by the squares-and-add rule: Zou and Donner, "Construction of confidence limits about effect
measures: a general approach", Statistics in Medicine 27, 2008; Newcombe, "Interval estimation for
the difference between independent proportions", Statistics in Medicine 17, 1998.

Student's t and beta distributions, for few seeds, speakers or errors, are at the end, since numpy
has neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats

FEW = 20
"""Number of trials below which one trial changes an EER by more than 5 %."""

FEW_GROUPS = 10
"""Number of speakers below which intervals are marked."""

# Distance of replicates below the measured lowest cost, as a share of its own bias; see above.
_BIAS_SHARE = 2 ** (2 / 3) - 1
# Standard deviation of a lowest cost around its best threshold, as a share of its bias, for a
# two-sided Brownian motion on a parabola, from 1,500 simulations with 150 bootstraps each.
_LOCAL = 0.757


@dataclass(frozen=True)
class Interval:
    """A value with its bootstrap interval.

    Attributes:
        p_value: P-value of a difference being zero; None for other values.
        groups: Number of speakers or recordings that were drawn, in the class with fewer of them;
            None if trials were drawn.

    Examples:
        >>> from asdf.evaluation import Interval
        >>> eer = Interval(0.05, low=0.03, high=0.08, groups=6)
        >>> f"{eer.value:.0%} ({eer.low:.0%} to {eer.high:.0%}), {eer.describe_groups('speakers')}"
        '5% (3% to 8%), 6 speakers only'
    """

    value: float
    low: float
    high: float
    p_value: float | None = None
    groups: int | None = None

    def describe_groups(self, what: str) -> str:
        """Return 'speakers', or '6 speakers only' if they are too few to represent others."""
        if self.groups is None or self.groups >= FEW_GROUPS:
            return what
        noun = what.removesuffix("s") if self.groups == 1 else what
        return f"{self.groups} {noun} only"


def read_intervals(record: Mapping[str, Any]) -> dict[str, Interval]:
    """Return the intervals of a record by metric, around the values next to them.

    A record without intervals gives none.
    """
    intervals = {}
    for name, (low, high) in record.get("intervals", {}).items():
        intervals[name] = Interval(float(record[name]), float(low), float(high))
    return intervals


@dataclass(frozen=True, eq=False)
class Rates:
    """The error rates at the threshold of a lowest cost, one for each kind of trials.

    Attributes:
        values: Rates, (kinds,).
        weights: Cost of each rate when it is 1, (kinds,).
        trials: Number of trials of each rate, (kinds,).
        drawn: Rates of replicates, (kinds, replicates); None if trials of one network are drawn.
        networks: Number of networks that the rates are averaged over.
    """

    values: Floats
    weights: Floats
    trials: Floats
    drawn: Floats | None = None
    networks: int = 1


def rate_interval(
    value: float, drawn: Floats, *, trials: int, groups: int | None = None, level: float = 0.95
) -> Interval:
    """Return the interval of an error rate, or of another value between 0 and 1.

    Args:
        drawn: Values of the replicates, (replicates,).
        trials: Number of trials of the rate: the smaller class for an EER.
        groups: Number of speakers or recordings that were drawn; None if trials were drawn.

    Without errors, all replicates are 0, and the interval is the exact binomial one: Clopper and
    Pearson, Biometrika 26, 1934. Trials of a group may err together, so over groups it is that for
    as many trials as groups. The same holds if all trials are errors.
    """
    if value in (0.0, 1.0) and (drawn == value).all():
        bound = zero_bound(trials if groups is None else groups, level)
        return Interval(value, value * (1 - bound), max(value, bound), groups=groups)
    if groups is not None:
        return _unbiased_interval(value, drawn, groups, level)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def zero_bound(trials: float, level: float = 0.95) -> float:
    """Return the highest rate that is compatible with no error in `trials` trials, two-sided."""
    return float(1 - ((1 - level) / 2) ** (1 / trials))


def proportion_bounds(errors: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a proportion by Jeffreys' prior, or the exact one for none or all.

    Source: Brown, Cai and DasGupta, "Interval estimation for a binomial proportion", Statistical
    Science 16, 2001. The numbers need not be integers.
    """
    right = trials - errors
    if errors <= 0:
        return 0.0, zero_bound(trials, level)
    if right <= 0:
        return 1 - zero_bound(trials, level), 1.0
    tail = (1 - level) / 2
    low = beta_quantile(tail, errors + 0.5, right + 0.5)
    return low, beta_quantile(1 - tail, errors + 0.5, right + 0.5)


def exact_bounds(errors: int, trials: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a proportion: Clopper and Pearson, Biometrika 26, 1934."""
    tail = (1 - 0.95) / 2
    right = trials - errors
    low = beta_quantile(tail, errors, right + 1) if errors else 0.0
    high = beta_quantile(1 - tail, errors + 1, right) if right else 1.0
    return low, high


def expansion(groups: int | None, level: float = 0.95) -> float:
    """Return the factor by which an interval over few groups is too narrow; 1 over trials.

    Replicates of n groups show (n - 1) / n of the variance, and the variance itself is estimated,
    which Student's t with n - 1 degrees of freedom accounts for.
    """
    if groups is None:
        return 1.0
    wider = t_quantile(level, groups - 1) / t_quantile(level, math.inf)
    return wider * math.sqrt(groups / (groups - 1))


def _unbiased_interval(value: float, drawn: Floats, groups: int, level: float) -> Interval:
    """Return the expanded interval of log odds, corrected for the bootstrap's bias.

    With odds, rates stay between 0 and 1 after expansion, and the rate of few groups is biased,
    since their own threshold is adapted to them.
    """
    # Rates of 0 and 1 have no log odds and are moved halfway to the nearest other rate.
    lowest = np.min(drawn, where=drawn > 0, initial=value or 1.0) / 2
    highest = 1 - (1 - np.max(drawn, where=drawn < 1, initial=value if value < 1 else 0.0)) / 2
    odds = _log_odds(np.clip(drawn, lowest, highest))
    measured = float(_log_odds(np.clip(value, lowest, highest)))
    mean = float(odds.mean())
    tail = (1 - level) / 2
    reach = (np.quantile(odds, [tail, 1 - tail]) - mean) * expansion(groups, level)
    low, high = 1 / (1 + np.exp(-(2 * measured - mean + reach)))
    return Interval(value, min(value, float(low)), max(value, float(high)), groups=groups)


def _log_odds(rates: npt.ArrayLike) -> Floats:
    shares = np.asarray(rates, np.float64)
    return np.log(shares) - np.log1p(-shares)


def lowest_interval(
    value: float, minima: Floats, rates: Rates, *, groups: int | None = None, level: float = 0.95
) -> Interval:
    """Return the interval of a normalised lowest cost; see the top of this file.

    Args:
        minima: Lowest cost of each replicate, (replicates,).
        rates: Rates at the threshold of `value`.
        groups: Number of speakers that were drawn; None where trials were drawn.
    """
    mean = float(minima.mean())
    lack = max(0.0, value - mean)
    below, above = _reaches(rates, groups, level)
    # If accepting or rejecting everything is nearly optimal, rates at the threshold hardly vary,
    # but the minimum does, so the interval extends at least as low as the replicates.
    lowest = float(np.quantile(minima, (1 - level) / 2))
    low = value - max(below, (mean - lowest) * expansion(groups, level))
    degrees = math.inf if groups is None else groups - 1
    local = t_quantile(level, degrees) * _LOCAL * lack / _BIAS_SHARE
    high = value + lack + math.hypot(above, local)
    # The better of accepting and rejecting everything costs 1.
    return Interval(value, max(0.0, low), max(value, min(high, 1.0)), groups=groups)


def _reaches(rates: Rates, groups: int | None, level: float) -> tuple[float, float]:
    """Return how far the cost at a fixed threshold may lie below and above its measured value."""
    trials = rates.trials
    correlation = np.eye(rates.values.size)
    if rates.drawn is not None and (groups is not None or rates.networks > 1):
        trials = _effective_trials(rates, rates.drawn, groups, level)
        # The correlations of the rows, (rows, rows); 0 with a row that does not vary.
        deviations = rates.drawn.std(axis=1)
        covariance = np.atleast_2d(np.cov(rates.drawn, bias=True))
        products = np.outer(deviations, deviations)
        correlation = np.divide(
            covariance, products, out=np.zeros_like(covariance), where=products > 0
        )
        np.fill_diagonal(correlation, 1.0)
    below = []
    above = []
    for rate, count, weight in zip(rates.values, trials, rates.weights, strict=True):
        low, high = proportion_bounds(rate * count, count, level)
        below.append(weight * (rate - low))
        above.append(weight * (high - rate))
    reaches = []
    for parts in (np.array(below), np.array(above)):
        reaches.append(math.sqrt(max(0.0, float(parts @ correlation @ parts))))
    return reaches[0], reaches[1]


def _effective_trials(rates: Rates, drawn: Floats, groups: int | None, level: float) -> Floats:
    """Return the number of independent trials whose rates vary like those of draws.

    Source: Korn and Graubard, "Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data", Survey Methodology 24, 1998.
    """
    variance = drawn.var(axis=1)
    of_one = rates.values * (1 - rates.values)
    # Without errors nothing varies, and each group may err as a whole.
    without = rates.trials
    if groups is not None:
        # For variance and quantile, whose squares are proportional to the number of trials.
        variance = variance * expansion(groups, level) ** 2
        without = np.full(of_one.size, float(groups))
    counts = np.divide(of_one, variance, out=np.full(of_one.size, np.nan), where=variance > 0)
    most = rates.trials * rates.networks
    return np.where(np.isnan(counts), without, np.clip(counts, 1, most))


def tested_interval(
    difference: float, deviation: float, *, degrees: float = math.inf, level: float = 0.95
) -> Interval:
    """Return the interval of a difference with the two-sided p-value of its being zero.

    The two agree: zero is outside the interval if p is below 1 - level.

    Args:
        deviation: Standard deviation of the difference.
        degrees: Degrees of freedom of Student's t; infinity for the normal distribution.
    """
    if not deviation:
        # As in a sign test whose n = degrees + 1 signs are equal.
        p_value = 0.5**degrees if difference else 1.0
        return Interval(difference, difference, difference, p_value)
    reach = t_quantile(level, degrees) * deviation
    p_value = two_sided_p(difference / deviation, degrees)
    return Interval(difference, difference - reach, difference + reach, p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple tests.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979.
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[int(index)]))
        adjusted[int(index)] = highest
    return adjusted


# As many as the fraction needs for 15 digits with small parameters, and more for each unit of the
# square root of the larger one.
_TERMS = 80
_TERMS_PER_ROOT = 4
# Each halves the range; these are far more digits of a quantile than are shown.
_HALVINGS = 80
_PRECISION = 1e-11
# A t quantile of one degree of freedom at 99.99 % lies below this.
_HIGHEST_T = 1e5


def two_sided_p(t: float, degrees: float) -> float:
    """Return the probability of a value at least as far from 0 as `t`.

    It is I_x(degrees / 2, 1 / 2) at x = degrees / (degrees + t^2): Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.5.27. With infinitely many degrees of freedom, it is that of the
    normal distribution.
    """
    if math.isinf(degrees):
        return math.erfc(abs(t) / math.sqrt(2))
    return regularised_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


# Every interval of a set asks for the same few values.
@lru_cache(maxsize=256)
def t_quantile(level: float, degrees: float) -> float:
    """Return the value that |t| stays below with probability `level`; 1.96 for .95 and infinity."""
    if math.isinf(degrees):
        return NormalDist().inv_cdf((1 + level) / 2)
    return _bisect(lambda t: 1 - two_sided_p(t, degrees), level, _HIGHEST_T)


def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the value that the beta distribution of a, b > 0 stays below with this probability."""
    return _bisect(lambda x: regularised_beta(x, a, b), share, 1.0)


def _bisect(rising: Callable[[float], float], target: float, highest: float) -> float:
    """Return the argument in 0 to `highest` at which an increasing function has a value."""
    low, high = 0.0, highest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if high - low < _PRECISION * high:
            break
        if rising(middle) < target:
            low = middle
        else:
            high = middle
    return high


def regularised_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), 0 <= x <= 1.

    By the continued fraction of the NIST Digital Library of Mathematical Functions, 8.17.22.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The fraction converges quickly on this side; the other side is the complement.
    if x > (a + 1) / (a + b + 2):
        return 1 - regularised_beta(1 - x, b, a)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta)
    number = np.arange(1, _TERMS + int(_TERMS_PER_ROOT * math.sqrt(max(a, b))) + 1)
    half, odd = np.divmod(number, 2)
    below = (a + number - 1) * (a + number)
    odd_terms = -(a + half) * (a + b + half) * x / below
    even_terms = half * (b - half) * x / below
    fraction = 1.0
    # From the innermost term outward.
    for term in reversed(np.where(odd, odd_terms, even_terms).tolist()):
        fraction = 1 + term / fraction
    return front / (a * fraction)
