"""How training went: loss, learning rate and EERs by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
def training_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]], title: str = "") -> Figure:
    """Name -> records of a run's metrics.jsonl; three axes, one below the other.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, (losses, rates, eers) = new_figure(
        COLUMN_INCHES, 4.6 + 0.14 * len(runs), nrows=3, sharex=True
    )
    names = labels_of(list(runs), _LABEL)
    evaluated: list[Any] = []
    for number, (name, records) in enumerate(zip(names, runs.values(), strict=True)):
        steps = [record for record in records if record.get("kind") == "step"]
        epochs = [record["epoch"] for record in steps]
        losses.plot(epochs, [record["loss"] for record in steps], **line_style(number))
        rates.plot(epochs, [record["learning_rate"] for record in steps], **line_style(number))
        evaluations = [record for record in records if record.get("kind") == "evaluation"]
        for corpus in dict.fromkeys(corpus for record in evaluations for corpus in record["eer"]):
            points = [
                (record["epoch"], 100 * record["eer"][corpus])
                for record in evaluations
                if corpus in record["eer"]
            ]
            style = line_style(len(evaluated))
            mark = {**mark_style(len(evaluated)), "linestyle": style["linestyle"], "markersize": 3}
            label = f"{name}, {corpus}"
            evaluated += eers.plot(*zip(*points, strict=True), **{**style, **mark}, label=label)
    losses.set(ylabel="training loss", title=title)
    rates.set(ylabel="learning rate")
    eers.set(ylabel="EER (%)", xlabel="epoch")
    for axes in (losses, rates, eers):
        axes.set_ylim(bottom=0)
        axes.grid(True)
    # Outside of the axes: inside, a legend lies on some of the points.
    lines = [*evaluated] if len(runs) == 1 else [*_named(losses.lines, names), *evaluated]
    figure.legend(handles=lines, loc="outside lower center", frameon=False)
    return figure


def _named(lines: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    """The lines of the losses with the names of their runs."""
    for line, name in zip(lines, names, strict=True):
        line.set_label(name)
    return lines
