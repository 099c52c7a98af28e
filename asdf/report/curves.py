"""Curves and histograms small enough for a page, for any number of trials.

Invariant: nothing that can be seen is lost. A thinned curve keeps its ends and stays within half a pixel of the whole
one on axes of 700 pixels; a histogram counts every trial once; a thinned series keeps the highest and the lowest value
of every stretch, so that no spike vanishes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.metrics.detection import DetCurve, Floats

DET_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
"""Error rates in % at which the axes of DET plots are marked (Martin et al., "The DET curve", Eurospeech 1997)."""

_LOWEST, _HIGHEST = 1e-4, 0.98
_TOLERANCE = 0.5 / 700
_CELLS = 4000
_MOST_BINS = 60


@dataclass(frozen=True)
class DetRange:
    """What the axes of DET plots show: rates in % from `low` to `high`, marked at `ticks`."""

    low: float
    high: float
    ticks: list[float]


def det_range(eers: Sequence[float]) -> DetRange:
    """The range for curves of these EERs (in %): the usual one, and further where they would lie at its ends.

    The page's script chooses in the same way (`detRange` in det.js).
    """
    low = 0.01 if any(0 < eer < 0.2 for eer in eers) else 0.1
    high = 95.0 if any(eer > 35 for eer in eers) else 40.0
    every = (0.01, 0.02, 0.05, *DET_TICKS, 60.0, 80.0, 90.0, 95.0)
    return DetRange(
        0.8 * low, 97.0 if high > 40 else 47.0, [tick for tick in every if low <= tick <= high]
    )


def probit(rates: npt.ArrayLike) -> Floats:
    """Normal deviates of rates (fractions), those beyond the widest axes held at their ends."""
    return np.interp(np.clip(rates, _LOWEST, _HIGHEST), _CDF, _DEVIATES)


_DEVIATES = np.linspace(-4, 4, 8001)
_CDF = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in _DEVIATES])
_SPAN = float(probit(DET_TICKS[-1] / 100) - probit(DET_TICKS[0] / 100))


@dataclass(frozen=True)
class ThinnedCurve:
    """A DET curve small enough for a page.

    Attributes:
        rates: [false alarm, miss, false alarm, miss, ...] in %, from 100, 0 to 0, 100.
        thresholds: at each point, the score up to which trials are rejected.
    """

    rates: list[float]
    thresholds: list[float]


def thinned_det(curve: DetCurve) -> ThinnedCurve:
    """Leave out the points of a DET curve that a page cannot show."""
    x = probit(curve.far) / _SPAN
    y = probit(curve.frr) / _SPAN
    # Far more trials than pixels: one point for each cell of a grid much finer than the tolerance,
    # then the corners.
    cell = np.rint(np.stack([x, y]) * _CELLS)
    enters = np.concatenate([[True], (np.diff(cell) != 0).any(axis=0)])
    first = np.flatnonzero(enters | np.roll(enters, -1))
    corners = first[simplified(x[first], y[first], _TOLERANCE)]
    rates = 100 * np.stack([curve.far[corners], curve.frr[corners]], axis=1)
    return ThinnedCurve(
        [short(rate) for rate in rates.ravel()],
        [short(threshold) for threshold in curve.thresholds[corners]],
    )


def simplified(x: Floats, y: Floats, tolerance: float) -> npt.NDArray[np.intp]:
    """Indices of points whose straight lines pass all others within `tolerance` (Ramer, Douglas and Peucker)."""
    keep = np.zeros(x.size, bool)
    keep[[0, -1]] = True
    stretches = [(0, x.size - 1)]
    while stretches:
        start, end = stretches.pop()
        if end - start < 2:
            continue
        dx, dy = x[end] - x[start], y[end] - y[start]
        inside_x, inside_y = x[start + 1 : end] - x[start], y[start + 1 : end] - y[start]
        length = math.hypot(dx, dy)
        away = (
            np.abs(dx * inside_y - dy * inside_x) / length
            if length
            else np.hypot(inside_x, inside_y)
        )
        farthest = int(np.argmax(away))
        if away[farthest] > tolerance:
            middle = start + 1 + farthest
            keep[middle] = True
            stretches += [(start, middle), (middle, end)]
    return np.flatnonzero(keep)


@dataclass(frozen=True)
class Histogram:
    """Counts of trials between equally spaced edges from `low` to `high`; those beyond are in the outermost bins."""

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
    """Histograms of bona fide trials, of all spoofs (named '') and of groups of spoofs, over the same bins.

    The bins cover all but the outermost 0.1 % of the scores at either end, and the score `within`; without `bins`
    there are as many as `bin_count` says.
    """
    low, high = np.quantile(np.concatenate([bona_fide, spoof]), [0.001, 0.999])
    low, high = min(low, within), max(high, within)
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, (bins or bin_count((bona_fide, spoof), high - low)) + 1)

    def counts(scores: Floats) -> list[int]:
        return [int(count) for count in np.histogram(np.clip(scores, low, high), edges)[0]]

    spoofs = {name: counts(scores) for name, scores in {"": spoof, **groups}.items()}
    return Histogram(short(low), short(high), counts(bona_fide), spoofs)


def bin_count(classes: Sequence[Floats], span: float) -> int:
    """How many bins of one width `span` is cut into: by Freedman and Diaconis (1981) for the narrower class.

    At most the root of the number of trials, so that few trials are no comb, and at most 60, which a page can show.
    """
    trials = sum(scores.size for scores in classes)
    widths = []
    for scores in classes:
        lower, upper = np.quantile(scores, [0.25, 0.75])
        widths.append(2 * (upper - lower) / scores.size ** (1 / 3))
    width = min((one for one in widths if one > 0), default=0.0)
    most = min(math.isqrt(trials), _MOST_BINS)
    return max(1, min(most, math.ceil(span / width) if width else most))


def thinned(x: Sequence[float], y: Sequence[float], most: int = 600) -> list[float]:
    """A series as [x, y, x, y, ...] of about `most` points at most; x rises."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    kept = np.arange(xs.size)
    if xs.size > most:
        stretches = np.array_split(kept, most // 2)
        kept = np.unique(
            [0, xs.size - 1]
            + [s[pick(ys[s])] for s in stretches if s.size for pick in (np.argmin, np.argmax)]
        )
    return [short(value) for i in kept for value in (xs[i], ys[i])]


def averaged(x: Sequence[float], y: Sequence[float], stretches: int = 80) -> list[float]:
    """The course of a long, noisy series: the means of its stretches, as [x, y, x, y, ...]; empty for a short one."""
    if len(x) < 3 * stretches:
        return []
    xs, ys = (np.array_split(np.asarray(values, np.float64), stretches) for values in (x, y))
    return [short(float(stretch.mean())) for pair in zip(xs, ys, strict=True) for stretch in pair]


def short(value: float) -> float:
    """The number with five significant digits, which is more than a plot shows."""
    return float(f"{value:.5g}")
