"""Reduction of curves and histograms to the size of a page; plots for papers use the same.

Invariant: nothing visible is lost. A thinned curve keeps its ends and stays within half a pixel of
the original on axes of 700 pixels; a histogram counts every trial once; a thinned series keeps the
highest and the lowest value of every segment, so that no spike vanishes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats, Indices
from asdf.metrics.detection import DetCurve

DET_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
"""Error rates in % at the marks of DET axes (Martin et al., "The DET curve", Eurospeech 1997)."""

# Used only if a curve would otherwise lie at an end of the usual axes.
LOW_TICKS = (0.01, 0.05)
HIGH_TICKS = (60.0, 80.0, 90.0, 95.0)

# Widest axes of the page, as fractions; points beyond them are drawn at their ends.
_LOWEST_RATE = 1e-4
_HIGHEST_RATE = 0.98
_TOLERANCE = 0.5 / 700
_CELLS = 4000
_MAX_BINS = 60


def det_range(eers: Sequence[float]) -> tuple[float, float, list[float]]:
    """Return the ends and ticks of axes for curves with these EERs, all in %.

    The axes are wider if a curve would lie at their ends.
    """
    low, high, ticks = 0.1, 47.0, list(DET_TICKS)
    # A curve without errors has no point within any axes.
    with_errors = list(filter(None, eers))
    if with_errors and min(with_errors) < 0.2:
        low = 0.01
        ticks = [*LOW_TICKS, *ticks]
    if eers and max(eers) > 35:
        high = 97.0
        # Labels so close together would overlap.
        ticks = [*(tick for tick in ticks if tick not in (0.05, 0.2)), *HIGH_TICKS]
    # Slightly below the lowest tick, so that a curve that ends there does not lie on the frame.
    return 0.8 * low, high, ticks


def probit(
    rates: npt.ArrayLike, lowest: float = _LOWEST_RATE, highest: float = _HIGHEST_RATE
) -> Floats:
    """Return the normal deviates of rates (fractions), clipped to the ends.

    Deviates are interpolated between -4 and 4, exact to 1e-6.
    """
    deviates: Floats = np.interp(np.clip(rates, lowest, highest), _CDF, _DEVIATES)
    return deviates


# NumPy has no inverse of the normal distribution, and SciPy is not required.
_DEVIATES = np.linspace(-4, 4, 8001)
_CDF = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in _DEVIATES])
# Length of the usual axes, to which the tolerance is relative.
_SPAN = float(probit(DET_TICKS[-1] / 100) - probit(DET_TICKS[0] / 100))


@dataclass(frozen=True)
class ThinnedCurve:
    """A DET curve reduced to the size of a page.

    Attributes:
        rates: [false alarm, miss, false alarm, miss, ...] in %, from 100, 0 to 0, 100.
        thresholds: Highest rejected score at each point.
        eer: EER of the original curve, as a fraction.
        eer_point: Point of the curve (false alarm, miss) in % at the threshold of the EER. The EER
            is the mean of the two rates, which may differ if there are few trials.
    """

    rates: list[float]
    thresholds: list[float]
    eer: float
    eer_point: tuple[float, float]


def thinned_det(curve: DetCurve) -> ThinnedCurve:
    """Remove the points of a DET curve that a page cannot show."""
    # Distances are computed on the page's axes, where equal distances look equal.
    x = probit(curve.far) / _SPAN
    y = probit(curve.frr) / _SPAN
    # There are far more trials than pixels. Taking a few points for each cell of a grid much finer
    # than the tolerance first makes the search for corners fast.
    cells = np.rint(np.stack([x, y]) * _CELLS)
    is_another_cell = (np.diff(cells) != 0).any(axis=0)
    enters = np.concatenate([[True], is_another_cell])
    # `enters` begins with True, which comes last here: a curve leaves its last cell.
    leaves = np.roll(enters, -1)
    few = np.flatnonzero(enters | leaves)
    corners = few[simplified(x[few], y[few], _TOLERANCE)]
    eer, _ = curve.eer()
    best = curve.eer_index()
    return ThinnedCurve(
        rates=interleaved(100 * curve.far[corners], 100 * curve.frr[corners]),
        thresholds=shortened(curve.thresholds[corners]),
        eer=eer,
        eer_point=(short(100 * curve.far[best]), short(100 * curve.frr[best])),
    )


def simplified(x: Floats, y: Floats, tolerance: float) -> Indices:
    """Return the indices of points whose polyline is within `tolerance` of all other points.

    The algorithm is Ramer-Douglas-Peucker.
    """
    retained = np.zeros(x.size, bool)
    retained[[0, -1]] = True
    # A list replaces recursion: a staircase of many trials is deeper than Python's stack.
    stretches = [(0, x.size - 1)]
    while stretches:
        start, end = stretches.pop()
        if end - start < 2:
            continue
        # Of the inner points from the line between the ends.
        dx, dy = x[end] - x[start], y[end] - y[start]
        inside_x, inside_y = x[start + 1 : end] - x[start], y[start + 1 : end] - y[start]
        length = math.hypot(dx, dy)
        distances: Floats = np.hypot(inside_x, inside_y)
        if length:  # otherwise the ends are the same point
            distances = np.abs(dx * inside_y - dy * inside_x) / length
        farthest = int(np.argmax(distances))
        if distances[farthest] > tolerance:
            middle = start + 1 + farthest
            retained[middle] = True
            stretches.append((start, middle))
            stretches.append((middle, end))
    return np.flatnonzero(retained)


@dataclass(frozen=True)
class Histogram:
    """Counts of trials between equally spaced edges from `low` to `high`.

    Trials beyond the edges are counted in the outermost bins.

    Attributes:
        bona_fide: Counts of the bona fide trials, (bins,).
        spoof: Counts of all spoofs, named '', and of each group of them, (bins,) each.
    """

    low: float
    high: float
    bona_fide: list[int]
    spoof: dict[str, list[int]]


def histogram(
    bona_fide: Floats,
    spoof: Floats,
    groups: Mapping[str, Floats],
    within: float,
    bins: int | None = None,
) -> Histogram:
    """Count bona fide trials, all spoofs (named '') and groups of spoofs in common bins.

    The bins cover the scores except the outermost 0.1 % at each end, and the score `within`;
    without `bins`, `bin_count` chooses their number.
    """
    # The outermost scores are ignored, because a single outlier would put all others into one bin.
    scores = np.concatenate([bona_fide, spoof])
    low, high = np.quantile(scores, [0.001, 0.999])
    low = min(low, within)
    high = max(high, within)
    # Scores that are all equal need bins too.
    if low == high:
        low -= 0.5
        high += 0.5
    bins = bins or bin_count((bona_fide, spoof), high - low)
    edges = np.linspace(low, high, bins + 1)

    def count(scores: Floats) -> list[int]:
        counts, _ = np.histogram(np.clip(scores, low, high), edges)
        numbers: list[int] = counts.tolist()
        return numbers

    spoofs = {name: count(group) for name, group in {"": spoof, **groups}.items()}
    return Histogram(short(low), short(high), count(bona_fide), spoofs)


def bin_count(classes: Sequence[Floats], span: float) -> int:
    """Return the number of bins of equal width in `span`.

    The width is that of Freedman and Diaconis (1981) for the narrower class. The number of bins is
    at most the square root of the number of trials, so that bins of few trials are not mostly
    empty, and at most 60, which a page can show.
    """
    widths = []
    for scores in classes:
        lower, upper = np.quantile(scores, [0.25, 0.75])
        widths.append(2 * (upper - lower) / scores.size ** (1 / 3))
    bins = min(math.isqrt(sum(scores.size for scores in classes)), _MAX_BINS)
    # The width is zero if half of a class has the same score.
    if known := [width for width in widths if width > 0]:
        bins = min(bins, math.ceil(span / min(known)))
    return max(1, bins)


def thinned(x: Sequence[float], y: Sequence[float], max_points: int = 600) -> list[float]:
    """Return a series as [x, y, x, y, ...] of at most about `max_points` points, with rising x."""
    xs = np.asarray(x, np.float64)
    ys = np.asarray(y, np.float64)
    if xs.size <= max_points:
        return interleaved(xs, ys)
    # A set, because the lowest and the highest point of a flat segment are the same.
    retained = {0, xs.size - 1}
    # Two points of each segment, so that spikes in both directions are kept.
    for stretch in np.array_split(np.arange(xs.size), max_points // 2):
        lowest = stretch[np.argmin(ys[stretch])]
        highest = stretch[np.argmax(ys[stretch])]
        retained.update((int(lowest), int(highest)))
    indices = sorted(retained)
    return interleaved(xs[indices], ys[indices])


def averaged(x: Sequence[float], y: Sequence[float], stretches: int = 80) -> list[float]:
    """Return a long, noisy series as the means of its segments, [x, y, x, y, ...].

    It is empty for a short series.
    """
    if len(x) < 3 * stretches:
        return []
    return interleaved(_stretch_means(x, stretches), _stretch_means(y, stretches))


def _stretch_means(values: Sequence[float], stretches: int) -> Floats:
    parts = np.array_split(np.asarray(values, np.float64), stretches)
    return np.array(list(map(np.mean, parts)))


def interleaved(x: Floats, y: Floats) -> list[float]:
    """Return [x, y, x, y, ...], rounded to the precision of a plot."""
    return shortened(np.stack([x, y], axis=1).ravel())


def shortened(values: Floats) -> list[float]:
    """Return the numbers, rounded to the precision of a plot."""
    return list(map(short, values.tolist()))


def short(value: float) -> float:
    """Return the number with five significant digits, which is more than a plot shows."""
    return float(f"{value:.5g}")
