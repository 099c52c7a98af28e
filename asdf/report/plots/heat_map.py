"""EERs of systems by condition, as colours with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from asdf.report.plots.figures import COLUMN_INCHES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def heat_map(
    rates: npt.ArrayLike, systems: Sequence[str], conditions: Sequence[str], title: str = ""
) -> Figure:
    """EERs (conditions, systems), fractions; NaN where a system has none. The darker, the worse.

    Raises:
        UsageError: matplotlib is not installed.
    """
    percents = 100 * np.asarray(rates, dtype=np.float64)
    width = max(COLUMN_INCHES, 1.2 + 0.7 * len(systems))
    figure, axes = new_figure(width, 0.9 + 0.24 * len(conditions))
    greatest = np.nanmax(percents, initial=1.0)
    image = axes.imshow(percents, cmap="Blues", vmin=0, vmax=greatest, aspect="auto")
    for (row, column), percent in np.ndenumerate(percents):
        text = "" if np.isnan(percent) else f"{percent:.2f}"
        dark = percent > 0.6 * greatest
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=7,
            color="white" if dark else "black",
        )
    axes.set_xticks(range(len(systems)), systems, rotation=20 if len(systems) > 3 else 0)
    axes.set_yticks(range(len(conditions)), conditions)
    axes.tick_params(length=0)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, label="EER (%)")
    return figure
