"""How training went: loss, learning rate and EERs by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asdf.evaluation.plots.figures import COLUMN_INCHES, line_style, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def training_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]], title: str = "") -> Figure:
    """Name -> records of a run's metrics.jsonl; three axes, one below the other.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, (losses, rates, eers) = new_figure(COLUMN_INCHES, 4.6, nrows=3, sharex=True)
    index = 0
    for number, (name, records) in enumerate(runs.items()):
        steps = [record for record in records if record.get("kind") == "step"]
        epochs = [record["epoch"] for record in steps]
        losses.plot(epochs, [record["loss"] for record in steps], label=name, **line_style(number))
        rates.plot(epochs, [record["learning_rate"] for record in steps], **line_style(number))
        evaluations = [record for record in records if record.get("kind") == "evaluation"]
        for corpus in dict.fromkeys(corpus for record in evaluations for corpus in record["eer"]):
            points = [
                (record["epoch"], 100 * record["eer"][corpus]) for record in evaluations if corpus in record["eer"]
            ]
            eers.plot(
                *zip(*points, strict=True), marker="o", markersize=2.5, label=f"{name}, {corpus}", **line_style(index)
            )
            index += 1
    losses.set(ylabel="training loss", title=title)
    rates.set(ylabel="learning rate")
    eers.set(ylabel="EER (%)", xlabel="epoch")
    for axes in (losses, eers):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")
    for axes in (losses, rates, eers):
        axes.set_ylim(bottom=0)
        axes.grid(True)
    return figure
