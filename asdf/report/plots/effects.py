"""The effect of settings on the EER, for papers: a plot of one setting, a map of two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.report.effects import Effects, scale_of
from asdf.report.plots.figures import COLUMN_INCHES, line_style, mark_style, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DARK = 0.6


@styled
def effect_plot(effects: Effects, title: str = "") -> Figure:
    """Draw the EERs on all sets by the values of one setting, with their 95 % intervals.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(COLUMN_INCHES, 2.8)
    scale = scale_of(effects.values(0))
    for index, set_name in enumerate(effects.sets):
        known = [point for point in effects.points if set_name in point.eers]
        x = [scale.positions[point.values[0]] for point in known]
        y = [100 * point.eers[set_name].mean for point in known]
        style = {**mark_style(index), "label": set_name}
        # Values that are no numbers have nothing between them.
        if scale.is_number:
            style.update(line_style(index))
        axes.plot(x, y, **style)
        for position, point in zip(x, known, strict=True):
            interval = point.eers[set_name].interval
            if interval is not None:
                bounds = [100 * interval.low, 100 * interval.high]
                axes.vlines(position, *bounds, color=style["color"], linewidth=0.8)
    _set_axis(axes, effects, scale.is_log, scale.positions)
    axes.set(ylabel="EER (%)", xlabel=effects.settings[0], title=title)
    axes.set_ylim(bottom=0)
    axes.grid(True)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _set_axis(axes: Any, effects: Effects, is_log: bool, positions: dict[str, float]) -> None:
    if is_log:
        axes.set_xscale("log")
    axes.set_xticks(list(positions.values()), list(positions))
    axes.minorticks_off()


@styled
def effect_map(effects: Effects, set_name: str, title: str = "") -> Figure:
    """Draw the mean EERs on a set by the values of two settings: the darker, the higher.

    Raises:
        UsageError: matplotlib is not installed.
    """
    down = effects.values(0)
    across = effects.values(1)
    percents = np.full((len(down), len(across)), np.nan)
    for point in effects.points:
        if set_name in point.eers:
            row = down.index(point.values[0])
            percents[row, across.index(point.values[1])] = 100 * point.eers[set_name].mean
    width = max(COLUMN_INCHES, 1.2 + 0.7 * len(across))
    figure, axes = new_figure(width, 1.2 + 0.3 * len(down))
    highest = np.nanmax(percents, initial=1.0)
    image = axes.imshow(percents, cmap="Blues", vmin=0, vmax=highest, aspect="auto")
    for (row, column), rate in np.ndenumerate(percents):
        if not np.isnan(rate):
            colour = "white" if rate > _DARK * highest else "black"
            axes.text(column, row, f"{rate:.2f}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(down)), down)
    axes.set(ylabel=effects.settings[0], xlabel=effects.settings[1], title=title)
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="EER (%)")
    return figure
