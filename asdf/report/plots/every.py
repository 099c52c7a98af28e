"""Every plot of a report, each in a file of its own, for papers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.metrics.summary import Summary
from asdf.report.plots.det import det_plot
from asdf.report.plots.figures import save_figure
from asdf.report.plots.heat_map import heat_map
from asdf.report.plots.histograms import score_histograms
from asdf.report.plots.training import training_curves
from asdf.trials.how_scored import in_precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEW = 2
"""A heat map of fewer conditions than this shows nothing that a table would not."""


def write_plots(
    folder: Path,
    summaries: Sequence[Summary],
    training: Mapping[str, Sequence[Mapping[str, Any]]],
    formats: Sequence[str] = ("pdf", "png"),
) -> list[Path]:
    """Write the plots of `summaries` (one for each system and set) and of `training` (run -> records) into `folder`.

    Of each set: DET curves of its systems, and a heat map of EERs for each column with conditions. Of each system on
    it: DET curves and histograms by attack.

    Returns:
        The files written.

    Raises:
        UsageError: matplotlib is not installed, or a format is none of `FORMATS`.
        AsdfError: a file cannot be written.
    """
    written = []
    for name, figure in _figures(summaries, training):
        for kind in formats:
            written.append(folder / f"{name}.{kind}")
            save_figure(figure, written[-1])
    return written


def _figures(
    summaries: Sequence[Summary], training: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[tuple[str, Figure]]:
    for name in dict.fromkeys(summary.set for summary in summaries):
        here = [summary for summary in summaries if summary.set == name]
        curves = {
            f"{one.name}{in_precision(one.scored.precision)}": (
                one.scores.bona_fide,
                one.scores.spoof,
            )
            for one in here
        }
        yield f"det_{_file(name)}", det_plot(curves, name)
        for column in dict.fromkeys(column for one in here for column in one.columns):
            values = sorted(
                {condition.value for one in here for condition in one.of_column(column)}
            )
            if len(values) >= _FEW:
                rates = [[_rate(one, column, value) for one in here] for value in values]
                yield (
                    f"eer_by_{_file(column)}_{_file(name)}",
                    heat_map(rates, [one.name for one in here], values, name),
                )
        for one in here:
            title, spoofs = f"{one.name} on {name}", one.spoofs_by_attack()
            rows = spoofs or {"spoof": one.scores.spoof}
            yield (
                f"scores_{_file(one.name)}_{_file(name)}",
                score_histograms(one.scores.bona_fide, rows, one.result.eer_threshold, title),
            )
            if spoofs:
                curves = {
                    attack: (one.scores.bona_fide, scores) for attack, scores in spoofs.items()
                }
                yield f"det_by_attack_{_file(one.name)}_{_file(name)}", det_plot(curves, title)
    trained = {name: records for name, records in training.items() if records}
    if trained:
        yield "training", training_curves(trained)


def _rate(summary: Summary, column: str, value: str) -> float:
    found = [
        condition.result.eer for condition in summary.of_column(column) if condition.value == value
    ]
    return found[0] if found else float("nan")


def _file(name: str) -> str:
    """A name as a part of a file's name, `asvspoof21-la-eval` of 'asvspoof21-la:eval'."""
    return re.sub(r"[^\w.+-]+", "-", name)
