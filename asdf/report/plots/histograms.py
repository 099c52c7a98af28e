"""How the scores of both classes, or of each attack, are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.metrics.detection import Floats
from asdf.report.curves import Histogram
from asdf.report.plots.figures import COLOURS, COLUMN_INCHES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def score_histograms(counts: Histogram, threshold: float | None = None, title: str = "") -> Figure:
    """Draw a row for each attack with the same bona fide trials behind it, as densities.

    Without attacks there is one row, of all spoofs. `threshold`, that of the EER say, is marked.

    Raises:
        UsageError: matplotlib is not installed.
    """
    spoofs = {name: attack for name, attack in counts.spoof.items() if name}
    spoofs = spoofs or {"spoof": counts.spoof[""]}
    rows = len(spoofs)
    # squeeze=False: one row, too, is an array of axes.
    figure, grid = new_figure(
        COLUMN_INCHES, 0.9 + 0.6 * rows, nrows=rows, sharex=True, squeeze=False
    )
    bins = len(counts.bona_fide)
    edges = np.linspace(counts.low, counts.high, bins + 1)
    for axes, (name, attack) in zip(grid[:, 0], spoofs.items(), strict=True):
        _draw_class(axes, counts.bona_fide, edges, "bona fide", COLOURS[0])
        # Hatched, so that the classes differ in grey too.
        _draw_class(axes, attack, edges, "spoof", COLOURS[1], hatch="//")
        if threshold is not None:
            axes.axvline(threshold, color="0.3", linewidth=0.8, linestyle=":")
        axes.set_ylabel(f"{name}\n{sum(attack):,}", rotation=0, ha="right", va="center")
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    first = grid[0, 0]
    if threshold is not None:
        _name_threshold(first, threshold)
    figure.legend(
        *first.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    first.set_title(title)
    grid[-1, 0].set_xlabel("score (higher: more bona fide)")
    return figure


def _draw_class(
    axes: Any, counts: Sequence[int], edges: Floats, label: str, colour: str, hatch: str = ""
) -> None:
    """Draw the density of a class: its shares over the width of the bins."""
    # A class without trials has a density of 0.
    trials = sum(counts) or 1
    widths = np.diff(edges)
    density = np.asarray(counts) / trials / widths
    axes.stairs(
        density, edges, fill=True, alpha=0.3, facecolor=colour, edgecolor=colour, hatch=hatch
    )
    axes.stairs(density, edges, color=colour, label=label)


def _name_threshold(axes: Any, threshold: float) -> None:
    text = f" {threshold:.4g}".replace("-", "−")
    transform = axes.get_xaxis_transform()
    axes.text(threshold, 1, text, transform=transform, va="top", fontsize=6, color="0.3")
