"""How the scores of both classes, or of each attack, are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from asdf.metrics.detection import Floats
from asdf.report.curves import bin_count
from asdf.report.plots.figures import COLOURS, COLUMN_INCHES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def score_histograms(
    bona_fide: Floats, spoofs: Mapping[str, Floats], threshold: float | None = None, title: str = ""
) -> Figure:
    """A row for each of `spoofs` (attack -> scores) with the same bona fide trials behind it, as densities.

    `threshold` is marked, that of the EER say.

    Raises:
        UsageError: matplotlib is not installed.
    """
    rows = len(spoofs)
    figure, grid = new_figure(
        COLUMN_INCHES, 0.9 + 0.6 * rows, nrows=rows, sharex=True, squeeze=False
    )
    spoof = np.concatenate([*spoofs.values()])
    every = np.concatenate([bona_fide, spoof])
    span = float(np.ptp(every))
    edges = (
        np.linspace(every.min(), every.max(), bin_count((bona_fide, spoof), span) + 1)
        if span
        else every[0] + np.array([-0.5, 0.5])
    )
    for axes, (name, spoof) in zip(grid[:, 0], spoofs.items(), strict=True):
        for scores, label, colour, hatch in (
            (bona_fide, "bona fide", COLOURS[0], ""),
            (spoof, "spoof", COLOURS[1], "//"),
        ):
            density = np.histogram(scores, edges, density=True)[0]
            axes.stairs(
                density,
                edges,
                fill=True,
                alpha=0.3,
                facecolor=colour,
                edgecolor=colour,
                hatch=hatch,
            )
            axes.stairs(density, edges, color=colour, label=label)
        if threshold is not None:
            axes.axvline(threshold, color="0.3", linewidth=0.8, linestyle=":")
            if axes is grid[0, 0]:
                high = axes.get_xaxis_transform()
                text = f" {threshold:.4g}".replace("-", "−")
                axes.text(threshold, 1, text, transform=high, va="top", fontsize=6, color="0.3")
        axes.set_ylabel(f"{name}\n{len(spoof):,}", rotation=0, ha="right", va="center")
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    grid[0, 0].set_title(title)
    grid[-1, 0].set_xlabel("score (higher: more bona fide)")
    return figure
