"""EERs of systems by condition, as colours with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from asdf.report.by_condition import ConditionTable
from asdf.report.plots.figures import COLUMN_INCHES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Black numbers cannot be read on colours above this share of the darkest one.
_DARK = 0.6


@styled
def heat_map(conditions: ConditionTable, systems: Sequence[str], title: str = "") -> Figure:
    """Draw the EERs of `systems`, one column each, by condition: the darker, the higher.

    Raises:
        UsageError: matplotlib is not installed.
    """
    # A value that a system does not have is None, which becomes NaN.
    rates = list(map(conditions.eers, conditions.values))
    percents = 100 * np.array(rates, dtype=np.float64)
    width = max(COLUMN_INCHES, 1.2 + 0.7 * len(systems))
    figure, axes = new_figure(width, 0.9 + 0.24 * len(conditions.values))
    # At least 1 %: among systems without errors, 0.02 % should not look like the worst of all.
    highest = np.nanmax(percents, initial=1.0)
    image = axes.imshow(percents, cmap="Blues", vmin=0, vmax=highest, aspect="auto")
    for (row, column), percent in np.ndenumerate(percents):
        if np.isnan(percent):
            continue
        colour = "white" if percent > _DARK * highest else "black"
        axes.text(column, row, f"{percent:.2f}", ha="center", va="center", fontsize=7, color=colour)
    # Many names next to each other have no room to lie flat.
    rotation = 20 if len(systems) > 3 else 0
    axes.set_xticks(range(len(systems)), systems, rotation=rotation)
    axes.set_yticks(range(len(conditions.values)), conditions.values)
    axes.tick_params(length=0)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, label="EER (%)")
    return figure
