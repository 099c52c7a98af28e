"""Matrices for papers: numbers in cells, the darker the higher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.report.by_condition import ConditionTable
from asdf.report.effects import Effects
from asdf.report.plots.figures import COLUMN_INCHES, new_figure, styled
from asdf.tables.panels import Floats
from asdf.tasks.tracing.measures import SourceResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Black numbers cannot be read on colours above this share of the darkest one.
_DARK = 0.6
# Numbers of more classes cannot be read.
_MOST_NUMBERED = 30


@styled
def confusion_plot(result: SourceResult, title: str = "") -> Figure:
    """Draw the proportions of each class (row) that are called each class (column).

    Raises:
        UsageError: matplotlib is not installed.
    """
    counts = result.confusion_KK
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = max(COLUMN_INCHES, 1.4 + 0.28 * len(counts))
    texts = np.where(counts > 0, counts.astype(str), "")
    if len(counts) > _MOST_NUMBERED:
        texts[:] = ""
    names = result.classes
    figure, axes = _draw(shares, texts, names, names, (side, side - 0.4), title, 1.0, 6)
    figure.axes[1].set_ylabel("proportion of the row")
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=6)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set(xlabel="called", ylabel=result.column, aspect="equal")
    return figure


@styled
def heat_map(conditions: ConditionTable, systems: Sequence[str], title: str = "") -> Figure:
    """Draw the EERs of `systems`, one column each, by condition: the darker, the higher.

    Raises:
        UsageError: matplotlib is not installed.
    """
    # A value that a system does not have is None, which becomes NaN.
    percents = 100 * np.array(list(map(conditions.eers, conditions.values)), dtype=np.float64)
    size = (max(COLUMN_INCHES, 1.2 + 0.7 * len(systems)), 0.9 + 0.24 * len(conditions.values))
    figure, axes = _draw_eers(percents, conditions.values, systems, size, title)
    # Many names next to each other have no room to lie flat.
    axes.tick_params(axis="x", rotation=20 if len(systems) > 3 else 0)
    return figure


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
    size = (max(COLUMN_INCHES, 1.2 + 0.7 * len(across)), 1.2 + 0.3 * len(down))
    figure, axes = _draw_eers(percents, down, across, size, title)
    axes.set(ylabel=effects.settings[0], xlabel=effects.settings[1])
    return figure


def _draw_eers(
    percents: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    size: tuple[float, float],
    title: str,
) -> tuple[Figure, Any]:
    texts = np.where(np.isnan(percents), "", np.char.mod("%.2f", percents))
    # At least 1 %: among systems without errors, 0.02 % should not look like the worst of all.
    highest = float(np.nanmax(percents, initial=1.0))
    figure, axes = _draw(percents, texts, rows, columns, size, title, highest, 7)
    figure.axes[1].set_ylabel("EER (%)")
    return figure, axes


def _draw(
    values: Floats,
    texts: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    size: tuple[float, float],
    title: str,
    highest: float,
    font_size: float,
) -> tuple[Figure, Any]:
    """Draw a matrix with its numbers and the bar of its colours, from 0 to `highest`."""
    figure, axes = new_figure(*size)
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=highest, aspect="auto")
    for (row, column), text in np.ndenumerate(texts):
        if text:
            colour = "white" if values[row, column] > _DARK * highest else "black"
            options = {"ha": "center", "va": "center", "fontsize": font_size, "color": colour}
            axes.text(column, row, str(text), **options)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.set_title(title)
    figure.colorbar(image, ax=axes)
    return figure, axes
