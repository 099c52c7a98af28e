"""Plots of embeddings for papers, with the groups, colours and shapes of the report's plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from asdf.report.plots.figures import COLUMN_INCHES, new_figure, save_figure, styled
from asdf.tasks.embeddings.pictures import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "plus": "+",
    "cross": "x",
    "bar": "_",
    "hollow circle": "o",
}


@styled
def embedding_plot(picture: Picture) -> Figure:
    """Draw a plot of embeddings.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(2 * COLUMN_INCHES, 4.5)
    for group in picture.groups:
        axes.plot(
            *group.points.T,
            linestyle="none",
            marker=_MARKERS[group.shape],
            markersize=3,
            color=group.colour,
            markerfacecolor="none" if group.shape == "hollow circle" else group.colour,
            alpha=0.75,
            label=f"{group.name}: {group.count:,}",
        )
    # As on the page: equal distances look equal in every direction.
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(picture.title)
    axes.set_xlabel(picture.note)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def write_embedding_plot(path: Path, picture: Picture) -> None:
    """Write a plot of embeddings as PNG or PDF. Raises as `save_figure`."""
    save_figure(embedding_plot(picture), path)
