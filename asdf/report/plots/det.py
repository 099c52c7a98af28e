"""DET curves: misses against false alarms on axes that make normally distributed scores straight.

Source: Martin et al., "The DET curve in assessment of detection task performance", Eurospeech 1997.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.metrics.detection import Floats
from asdf.report.curves import DetRange, ThinnedCurve, det_range, probit
from asdf.report.names import labels_of
from asdf.report.plots.figures import (
    COLUMN_INCHES,
    line_style,
    mark_style,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABEL = 34
# Two such labels stand next to each other below a plot of one column.
_NARROW_LABEL = 24
_FEW_SYSTEMS = 3


@styled
def det_plot(systems: Mapping[str, ThinnedCurve], title: str = "") -> Figure:
    """Draw the DET curve of each system; a mark shows where its EER is taken.

    The axes have the range of the report's page.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(COLUMN_INCHES, COLUMN_INCHES + 0.13 * (len(systems) + 2))
    curves = list(systems.values())
    range_ = det_range([100 * curve.eer for curve in curves])
    lowest, highest = _deviates([range_.low, range_.high])
    handles = []
    labels = labels_of(list(systems), _LABEL)
    for index, (curve, name) in enumerate(zip(curves, labels, strict=True)):
        axes.plot(_deviates(curve.rates[::2]), _deviates(curve.rates[1::2]), **line_style(index))
        x, y = np.clip(_deviates(curve.eer_point), lowest, highest)
        mark = mark_style(index)
        axes.plot([x], [y], **mark, zorder=3, clip_on=False)
        # The legend shows line and mark together.
        label = f"{name}: EER {100 * curve.eer:.2f} %"
        handles += axes.plot([], [], label=label, **{**mark, **line_style(index)})
    axes.plot([lowest, highest], [lowest, highest], color="0.7", linewidth=0.6, zorder=0)
    _set_axes(axes, range_, title)
    _add_legend(figure, handles)
    return figure


def _set_axes(axes: Any, range_: DetRange, title: str) -> None:
    """Show the range of both axes, with its ticks in %."""
    limits = tuple(_deviates([range_.low, range_.high]))
    texts = list(map("{:g}".format, range_.ticks))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(_deviates(range_.ticks), texts)
    axes.tick_params(labelsize=7)
    axes.set(
        xlim=limits,
        ylim=limits,
        xlabel="false alarms: spoof accepted (%)",
        ylabel="misses: bona fide rejected (%)",
        aspect="equal",
        title=title,
    )
    axes.grid(True)


def _add_legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Add a legend below the axes, in two columns if it has many short names."""
    labels = [handle.get_label() for handle in handles]
    longest = max(map(len, labels))
    has_two_columns = longest <= _NARROW_LABEL and len(handles) > _FEW_SYSTEMS
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=2 if has_two_columns else 1,
        frameon=False,
    )


def _deviates(percents: Sequence[float]) -> Floats:
    """Return the normal deviates of rates in %, also of those that the page's axes do not show."""
    return probit(np.asarray(percents) / 100, 0.0, 1.0)
