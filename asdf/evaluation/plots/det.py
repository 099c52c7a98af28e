"""DET curves: misses against false alarms on axes on which normally distributed scores give straight lines.

Source: Martin et al., "The DET curve in assessment of detection task performance", Eurospeech 1997.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from asdf.evaluation.detection import Floats, det_curve, eer
from asdf.evaluation.plots.figures import COLUMN_INCHES, line_style, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TICKS = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6)
"""Rates that the axes name."""

_GREATEST = 0.6
_POINTS = 2000


def probit(rates: Floats) -> Floats:
    """The inverse of the normal distribution's cumulative function; infinite for rates of 0 and 1."""
    inner = np.asarray(rates, dtype=np.float64)
    values = np.where(inner <= 0, -np.inf, np.inf)
    between = (inner > 0) & (inner < 1)
    inverse = NormalDist().inv_cdf
    values[between] = [inverse(rate) for rate in inner[between].tolist()]
    return values


def thinned_curve(bona_fide: Floats, spoof: Floats, points: int = _POINTS) -> tuple[Floats, Floats]:
    """Miss and false alarm rates of the DET curve, (n,) each; about `points` of its corners, none where few.

    What is left out cannot be seen: of each run of thresholds that a plot of `points` pixels would draw as one, the
    first is kept.
    """
    miss, false_alarm, _ = det_curve(bona_fide, spoof)
    if miss.size <= points:
        return miss, false_alarm
    bounded = [probit(np.clip(rates, 1e-6, 1 - 1e-6)) for rates in (miss, false_alarm)]
    pixel = np.stack([np.floor(values * points / 10) for values in bounded])
    kept = np.flatnonzero(np.any(np.diff(pixel, axis=1, prepend=np.inf) != 0, axis=0))
    kept = np.union1d(kept, [0, miss.size - 1])
    return miss[kept], false_alarm[kept]


@styled
def det_plot(systems: Mapping[str, tuple[Floats, Floats]], title: str = "") -> Figure:
    """The DET curves of `systems`, name -> scores of (bona fide, spoof) trials; a dot marks each EER.

    The axes end where the trials end: one error of the smaller class is the least rate that can be told from none.

    Raises:
        AsdfError: a class is empty or a score is not finite.
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(COLUMN_INCHES, COLUMN_INCHES + 0.08 * (len(systems) + 2))
    least = min(0.5 / max(map(len, scores)) for scores in systems.values())
    lowest, highest = probit(np.array([min(max(least, 1e-5), 0.01), _GREATEST]))
    for index, (name, (bona_fide, spoof)) in enumerate(systems.items()):
        miss, false_alarm = (np.clip(probit(rates), lowest - 1, 5) for rates in thinned_curve(bona_fide, spoof))
        rate = eer(bona_fide, spoof)[0]
        style = line_style(index)
        label = f"{name}: EER {100 * rate:.2f} %"
        axes.step(false_alarm, miss, where="post", label=label, **style)
        place = float(probit(np.array([rate]))[0])
        axes.plot(place, place, "o", markersize=3.5, color=style["color"])
    axes.plot([lowest, highest], [lowest, highest], color="0.7", linewidth=0.6, zorder=0)
    ticks = [rate for rate in TICKS if lowest <= probit(np.array([rate]))[0] <= highest]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(probit(np.array(ticks)), [f"{100 * rate:g}" for rate in ticks])
    axes.set(
        xlim=(lowest, highest),
        ylim=(lowest, highest),
        xlabel="false alarms: spoof accepted (%)",
        ylabel="misses: bona fide rejected (%)",
        aspect="equal",
        title=title,
    )
    axes.grid(True)
    figure.legend(loc="outside lower center", ncols=1 + (len(systems) > 3), frameon=False)
    return figure
