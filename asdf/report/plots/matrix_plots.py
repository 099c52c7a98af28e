"""Matrix plots for papers: numbers in cells, darker for higher values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asdf.arrays import Floats
from asdf.report.by_condition import ConditionTable
from asdf.report.plots.figures import COLUMN_INCHES, new_figure, styled
from asdf.tables.matrices import Matrix
from asdf.tasks.studies.effects import Effects
from asdf.tasks.tracing.source_measures import SourceResult
from asdf.tasks.tracing.source_tables import confusion_matrix

# The small numbers of larger matrices are not readable.
_MOST_NUMBERED = 30
_SMALL = 6


@styled
def confusion_plot(result: SourceResult, title: str = "") -> Figure:
    """Draw the proportion of each class (row) that is predicted as each class (column)."""
    matrix = confusion_matrix(result, title)
    side = max(COLUMN_INCHES, 1.4 + 0.28 * len(matrix.rows))
    figure, axes = _draw(matrix, (side, side - 0.4), 6)
    axes.tick_params(labelsize=6)
    axes.set(aspect="equal")
    # Rotated, because names of adjacent columns would overlap.
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="right")
    return figure


@styled
def heat_map(conditions: ConditionTable, systems: Sequence[str], title: str = "") -> Figure:
    """Draw the EERs of `systems`, one column each, by condition; darker for higher EERs."""
    # A value that a system does not have is None, which becomes NaN.
    percents = 100 * np.array(list(map(conditions.eers, conditions.values)), dtype=np.float64)
    size = (max(COLUMN_INCHES, 1.2 + 0.7 * len(systems)), 0.9 + 0.24 * len(conditions.values))
    figure, axes = _draw(_eers(percents, conditions.values, systems, title), size, 7)
    # Many horizontal names would overlap.
    axes.tick_params(axis="x", rotation=20 if len(systems) > 3 else 0)
    return figure


@styled
def effect_map(effects: Effects, set_name: str, title: str = "") -> Figure:
    """Draw the mean EERs on a set by the values of two settings; darker for higher EERs."""
    down = effects.values(0)
    across = effects.values(1)
    percents = np.full((len(down), len(across)), np.nan)
    for point in effects.points:
        if set_name in point.eers:
            row = down.index(point.values[0])
            percents[row, across.index(point.values[1])] = 100 * point.eers[set_name].mean
    size = (max(COLUMN_INCHES, 1.2 + 0.7 * len(across)), 1.2 + 0.3 * len(down))
    matrix = _eers(percents, down, across, title, effects.settings)
    return _draw(matrix, size, 7)[0]


def _eers(
    percents: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    headings: Sequence[str] = ("", ""),
) -> Matrix:
    texts = np.where(np.isnan(percents), "", np.char.mod("%.2f", percents)).tolist()
    # At least 1 %: among systems without errors, 0.02 % should not look like the worst.
    highest = float(np.nanmax(percents, initial=1.0))
    row_heading, column_heading = headings
    return Matrix(
        rows,
        columns,
        percents,
        texts,
        title,
        highest,
        row_heading=row_heading,
        column_heading=column_heading,
    )


def _draw(matrix: Matrix, size: tuple[float, float], font_size: float) -> tuple[Figure, Any]:
    """Draw a matrix of this size in inches, with a colour bar."""
    figure = new_figure(*size)
    axes = figure.axes[0]
    options: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": matrix.highest}
    image = axes.imshow(matrix.values, aspect="auto", **options)
    if len(matrix.rows) <= _MOST_NUMBERED or font_size > _SMALL:
        for row, texts in enumerate(matrix.texts):
            for column, text in enumerate(texts):
                colour = "white" if matrix.is_dark(row, column) else "black"
                style: dict[str, Any] = {
                    "ha": "center",
                    "va": "center",
                    "fontsize": font_size,
                    "color": colour,
                }
                if text:
                    axes.text(column, row, text, **style)
    axes.set_xticks(range(len(matrix.columns)), matrix.columns)
    axes.set_yticks(range(len(matrix.rows)), matrix.rows)
    axes.tick_params(length=0)
    axes.set(xlabel=matrix.column_heading, ylabel=matrix.row_heading, title=matrix.title)
    figure.colorbar(image, ax=axes, label=matrix.scale)
    return figure, axes
