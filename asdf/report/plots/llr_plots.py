"""Plots of likelihood ratios for papers: Tippett, empirical cross-entropy and reliability.

They draw the panels of pages, see `asdf.report.llr_pictures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from asdf.metrics.detection import DetCurve
from asdf.report.llr_pictures import Drawn, ece_panel, reliability_panel, tippett_panel
from asdf.report.plots.figures import COLUMN_INCHES, add_legend, draw_panel, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def tippett_plot(systems: Mapping[str, DetCurve], title: str = "") -> Figure:
    """Draw Tippett curves of both classes of each system.

    Raises:
        UsageError: matplotlib is not installed.
    """
    return _plot(tippett_panel(systems), title)


@styled
def ece_plot(systems: Mapping[str, DetCurve], title: str = "") -> Figure:
    """Draw the empirical cross-entropy of each system, as measured and after PAV.

    Raises:
        UsageError: matplotlib is not installed.
    """
    return _plot(ece_panel(systems), title)


@styled
def reliability_plot(systems: Mapping[str, DetCurve], title: str = "") -> Figure:
    """Draw the reliability diagram of each system, with 95 % intervals.

    Raises:
        UsageError: matplotlib is not installed.
    """
    return _plot(reliability_panel(systems), title)


def _plot(drawn: Drawn, title: str) -> Figure:
    height = 2.7 + 0.14 * len(drawn.legend)
    figure, axes = new_figure(COLUMN_INCHES, height)
    draw_panel(axes, drawn.panel)
    axes.set_title(title)
    add_legend(figure, drawn.legend)
    return figure
