"""DET curves: misses against false alarms on axes on which normally distributed scores give straight lines.

Source: Martin et al., "The DET curve in assessment of detection task performance", Eurospeech 1997.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from asdf.metrics.detection import DetCurve, Floats
from asdf.report.curves import det_range
from asdf.report.names import labels_of
from asdf.report.plots.figures import (
    COLUMN_INCHES,
    line_style,
    mark_style,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABEL = 34
# Two such labels stand next to each other below a plot of one column.
_NARROW = 24
_POINTS = 2000


def probit(rates: Floats) -> Floats:
    """The inverse of the normal distribution's cumulative function; infinite for rates of 0 and 1."""
    inner = np.asarray(rates, dtype=np.float64)
    values = np.where(inner <= 0, -np.inf, np.inf)
    between = (inner > 0) & (inner < 1)
    inverse = NormalDist().inv_cdf
    values[between] = [inverse(rate) for rate in inner[between].tolist()]
    return values


def thinned_curve(curve: DetCurve, points: int = _POINTS) -> tuple[Floats, Floats]:
    """Return miss and false alarm rates of the curve, (n,) each, with about `points` of its corners.

    What is left out cannot be seen: of each run of thresholds that a plot of `points` pixels would
    draw as one, the first stays.
    """
    miss = curve.frr
    false_alarm = curve.far
    if miss.size <= points:
        return miss, false_alarm
    bounded = [probit(np.clip(rates, 1e-6, 1 - 1e-6)) for rates in (miss, false_alarm)]
    pixel = np.stack([np.floor(values * points / 10) for values in bounded])
    kept = np.flatnonzero(np.any(np.diff(pixel, axis=1, prepend=np.inf) != 0, axis=0))
    kept = np.union1d(kept, [0, miss.size - 1])
    return miss[kept], false_alarm[kept]


@styled
def det_plot(systems: Mapping[str, tuple[Floats, Floats]], title: str = "") -> Figure:
    """The DET curves of `systems`, name -> scores of (bona fide, spoof) trials; a mark shows each EER.

    The axes have the range of the report's page.

    Raises:
        AsdfError: a class is empty or a score is not finite.
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(COLUMN_INCHES, COLUMN_INCHES + 0.13 * (len(systems) + 2))
    curves = [DetCurve.of(*scores) for scores in systems.values()]
    eers = [curve.eer()[0] for curve in curves]
    shape = det_range([100 * rate for rate in eers])
    lowest, highest = probit(np.array([shape.low, shape.high]) / 100)
    handles = []
    labels = labels_of(list(systems), _LABEL)
    for index, (curve, rate, name) in enumerate(zip(curves, eers, labels, strict=True)):
        thinned = thinned_curve(curve)
        miss, false_alarm = (np.clip(probit(rates), lowest - 1, 5) for rates in thinned)
        style, mark = line_style(index), mark_style(index)
        label = f"{name}: EER {100 * rate:.2f} %"
        axes.step(false_alarm, miss, where="post", **style)
        place = float(np.clip(probit(np.array([rate])), lowest, highest)[0])
        axes.plot(place, place, **mark, zorder=3, clip_on=False)
        # The legend shows line and mark together.
        handles += axes.plot([], [], label=label, **{**mark, **style})
    axes.plot([lowest, highest], [lowest, highest], color="0.7", linewidth=0.6, zorder=0)
    ticks = np.array(shape.ticks)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(probit(ticks / 100), [f"{tick:g}" for tick in ticks])
    axes.tick_params(axis="x", labelrotation=0, labelsize=7)
    axes.tick_params(axis="y", labelsize=7)
    axes.set(
        xlim=(lowest, highest),
        ylim=(lowest, highest),
        xlabel="false alarms: spoof accepted (%)",
        ylabel="misses: bona fide rejected (%)",
        aspect="equal",
        title=title,
    )
    axes.grid(True)
    wide = max(len(handle.get_label()) for handle in handles) > _NARROW
    below_each_other = wide or len(systems) <= 3
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=1 if below_each_other else 2,
        frameon=False,
    )
    return figure
