"""The confusion matrix of traced sources, as colours with the numbers of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asdf.report.plots.figures import COLUMN_INCHES, new_figure, styled
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
    figure, axes = new_figure(side, side - 0.4)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(counts) <= _MOST_NUMBERED:
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > _DARK else "black"
            if count:
                axes.text(
                    column, row, str(count), ha="center", va="center", fontsize=6, color=colour
                )
    axes.set_xticks(range(len(counts)), result.classes, rotation=60, ha="right", fontsize=6)
    axes.set_yticks(range(len(counts)), result.classes, fontsize=6)
    axes.tick_params(length=0)
    axes.set_xlabel("called")
    axes.set_ylabel(result.column)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, label="proportion of the row")
    return figure


@styled
def oscr_plot(results: dict[str, SourceResult], title: str = "") -> Figure:
    """Draw the OSCR curves of systems that were measured on unknown sources.

    Raises:
        UsageError: matplotlib is not installed.
    """
    from asdf.report.plots.figures import line_style

    figure, axes = new_figure()
    for index, (name, result) in enumerate(results.items()):
        if result.open is not None:
            axes.plot(
                result.open.false_positive_rates,
                result.open.correct_rates,
                label=f"{name}: {result.open.oscr:.3f}",
                **line_style(index),
            )
    axes.set_xlabel("unknown sources accepted")
    axes.set_ylabel("known sources classified correctly")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.grid(True)
    axes.legend()
    axes.set_title(title)
    return figure
