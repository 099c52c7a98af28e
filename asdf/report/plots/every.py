"""Every plot of a report, each in a file of its own, for papers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from asdf.report.by_condition import columns_of, condition_table
from asdf.report.data import training_courses
from asdf.report.gathering import Gathered, Measurement
from asdf.report.plots.figures import save_figure
from asdf.report.plots.matrix_plots import effect_map, heat_map
from asdf.report.plots.panel_plots import det_plot, effect_plot, score_histograms, training_curves
from asdf.tasks.studies.effects import find_effects
from asdf.trials.how_scored import in_precision, role_words

# A heat map of fewer conditions shows no more than a table.
_MIN_CONDITIONS = 2


@dataclass(frozen=True)
class NamedFigure:
    """A figure and the name of its file, without a suffix."""

    name: str
    figure: Figure


def write_plots(
    folder: Path, gathered: Gathered, formats: Sequence[str] = ("pdf", "png")
) -> list[Path]:
    """Write the plots of what was gathered `for_plots` into `folder`.

    The plots are, for each set: DET curves of its systems, and a heat map of EERs for each column
    with conditions; for each system on it: DET curves and histograms by attack; for all runs: their
    training courses.

    Returns:
        Paths of the files written.

    Raises:
        UsageError: a format is not one of `FORMATS`.
        AsdfError: a file cannot be written.
    """
    written = []
    for named in _draw_all(gathered):
        for suffix in formats:
            path = folder / f"{named.name}.{suffix}"
            save_figure(named.figure, path)
            written.append(path)
    return written


def _draw_all(gathered: Gathered) -> Iterator[NamedFigure]:
    for set_name in gathered.sets:
        measured = gathered.in_order_of_runs(set_name)
        yield from _draw_set(set_name, measured)
        for system in measured:
            title = f"{system.system} on {set_name}"
            files = f"{_file_part(system.system)}_{_file_part(set_name)}"
            threshold = system.summary.result.eer_threshold
            histograms = score_histograms(system.histogram, threshold, title)
            yield NamedFigure(f"scores_{files}", histograms)
            # Without known attacks, the plot of the set shows the curve of all spoofs.
            if system.attacks:
                curves = {attack: system.curves[attack] for attack in system.attacks}
                yield NamedFigure(f"det_by_attack_{files}", det_plot(curves, title))
    yield from _draw_effects(gathered)
    courses = [course for course in training_courses(gathered) if not course.is_empty]
    if courses:
        yield NamedFigure("training", training_curves(courses))


def _draw_effects(gathered: Gathered) -> Iterator[NamedFigure]:
    """Draw the effect of one setting on all sets, or of two on each; tables show more."""
    effects = find_effects(gathered)
    if effects is None or len(effects.settings) > 2:
        return
    name = "_".join(["effect", *map(_file_part, effects.settings)])
    if len(effects.settings) == 1:
        yield NamedFigure(name, effect_plot(effects))
        return
    for set_name in effects.sets:
        figure = effect_map(effects, set_name, set_name)
        yield NamedFigure(f"{name}_{_file_part(set_name)}", figure)


def _draw_set(set_name: str, measured: Sequence[Measurement]) -> Iterator[NamedFigure]:
    """Draw the DET curves of all systems on a set, and their EERs by condition."""
    curves = {}
    for system in measured:
        scored = system.summary.scored
        remark = in_precision(scored.precision) + role_words(scored.role)
        curves[f"{system.system}{remark}"] = system.curves[""]
    yield NamedFigure(f"det_{_file_part(set_name)}", det_plot(curves, set_name))
    summaries = [system.summary for system in measured]
    systems = [system.system for system in measured]
    for column in columns_of(summaries):
        conditions = condition_table(summaries, column)
        if len(conditions.values) >= _MIN_CONDITIONS:
            name = f"eer_by_{_file_part(column)}_{_file_part(set_name)}"
            yield NamedFigure(name, heat_map(conditions, systems, set_name))


def _file_part(name: str) -> str:
    """Return a name as a part of a file's name: `asvspoof21-la-eval` for 'asvspoof21-la:eval'."""
    return re.sub(r"[^\w.+-]+", "-", name)
