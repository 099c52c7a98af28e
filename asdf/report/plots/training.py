"""How training went: loss, learning rate and EERs by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asdf.report.courses import TrainingCourse
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

_LABEL = 30


@styled
def training_curves(courses: Sequence[TrainingCourse], title: str = "") -> Figure:
    """Draw the courses of runs on three axes, one below the other.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, (losses, rates, eers) = new_figure(
        COLUMN_INCHES, 4.6 + 0.14 * len(courses), nrows=3, sharex=True
    )
    names = labels_of([course.name for course in courses], _LABEL)
    run_lines: list[Any] = []
    eer_lines: list[Any] = []
    loss_lines: list[Any] = []
    for index, (name, course) in enumerate(zip(names, courses, strict=True)):
        style = line_style(index)
        run_lines += losses.plot(course.loss[::2], course.loss[1::2], label=name, **style)
        rates.plot(course.learning_rate[::2], course.learning_rate[1::2], **style)
        # Each set has a look of its own, next to that of its run.
        for set_name in dict.fromkeys([*course.eers, *course.losses]):
            points = course.eers.get(set_name, [])
            label = f"{name}, {set_name}"
            style = _marked_line_style(len(eer_lines))
            eer_lines += eers.plot(points[::2], points[1::2], label=label, **style)
            on_set = course.losses.get(set_name, [])
            # The same look: the legend of the EERs is theirs.
            loss_lines += losses.plot(on_set[::2], on_set[1::2], **style) if on_set else []
    losses.set(ylabel="loss" if loss_lines else "training loss", title=title)
    rates.set(ylabel="learning rate")
    eers.set(ylabel="EER (%)", xlabel="epoch")
    for axes in (losses, rates, eers):
        axes.set_ylim(bottom=0)
        axes.grid(True)
    # Of a single run the losses need no name. Inside the axes, a legend would lie on some points.
    handles = eer_lines if len(courses) == 1 else run_lines + eer_lines
    figure.legend(handles=handles, loc="outside lower center", frameon=False)
    return figure


def _marked_line_style(index: int) -> dict[str, Any]:
    """Return the style of a line whose points are marked."""
    return {**mark_style(index), **line_style(index), "markersize": 3}
