"""Panels for papers: DET curves, histograms of scores, trainings, effects and OSCR curves.

They draw the panels of the report's page, see `asdf.report.drawing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from asdf.report.courses import TrainingCourse
from asdf.report.curves import Histogram, ThinnedCurve
from asdf.report.drawing import (
    NamedCurve,
    course_panel,
    det_panel,
    histogram_panel,
    loss_lines,
    rate_lines,
    set_lines,
    sets_of_courses,
)
from asdf.report.effect_pictures import effect_panel
from asdf.report.plots.figures import (
    COLUMN_INCHES,
    add_legend,
    draw_panel,
    new_figure,
    styled,
)
from asdf.tables.labels import labels_of
from asdf.tables.panels import Axis, Line, Panel
from asdf.tasks.studies.effects import Effects
from asdf.tasks.tracing.source_measures import SourceResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABEL = 34
_RUN_LABEL = 30
# Maximum length of labels that fit side by side below a plot of one column.
_NARROW_LABEL = 24
_FEW_SYSTEMS = 3


@styled
def det_plot(systems: Mapping[str, ThinnedCurve], title: str = "") -> Figure:
    """Draw the DET curve of each system, with a mark at its EER.

    The axes have the range of the report's page.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(COLUMN_INCHES, COLUMN_INCHES + 0.13 * (len(systems) + 2))
    labels = labels_of(list(systems), _LABEL)
    curves = []
    entries = {}
    for index, (curve, label) in enumerate(zip(systems.values(), labels, strict=True)):
        curves.append(NamedCurve(curve, label, Line((), index)))
        entries[f"{label}: EER {100 * curve.eer:.2f} %"] = Line((), index, mark_words=_no_words)
    draw_panel(axes, det_panel(curves))
    axes.tick_params(labelsize=7)
    axes.set(aspect="equal", title=title)
    is_narrow = max(map(len, entries)) <= _NARROW_LABEL and len(entries) > _FEW_SYSTEMS
    add_legend(figure, entries, 2 if is_narrow else 1)
    return figure


def _no_words(x: float, y: float) -> str:
    return ""


@styled
def score_histograms(counts: Histogram, threshold: float | None = None, title: str = "") -> Figure:
    """Draw proportions of scores in a row per attack, each with the same bona fide trials.

    Without attacks, a single row shows all spoofs. `threshold`, such as that of the EER, is marked.

    Raises:
        UsageError: matplotlib is not installed.
    """
    spoofs = {name: attack for name, attack in counts.spoof.items() if name}
    spoofs = spoofs or {"spoof": counts.spoof[""]}
    rows = len(spoofs)
    # squeeze=False: a single row is an array of axes too.
    figure, grid = new_figure(
        COLUMN_INCHES,
        0.9 + 0.6 * rows,
        nrows=rows,
        sharex=True,
        squeeze=False,
    )
    for axes, (name, attack) in zip(grid[:, 0], spoofs.items(), strict=True):
        draw_panel(axes, histogram_panel(counts, {None: attack}, threshold))
        axes.set_ylabel(f"{name}\n{sum(attack):,}", rotation=0, ha="right", va="center")
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        # The value of the threshold is written once, above all rows.
        for text in axes.texts if axes is not grid[0, 0] else ():
            text.remove()
        if axes is not grid[-1, 0]:
            axes.set_xlabel("")
    grid[0, 0].set_title(title)
    add_legend(figure, {"bona fide": Line(()), "spoof": Line((), 1)}, 2)
    return figure


@styled
def training_curves(courses: Sequence[TrainingCourse], title: str = "") -> Figure:
    """Draw the courses of runs on three axes, one below the other.

    Raises:
        UsageError: matplotlib is not installed.
    """
    height = 4.6 + 0.14 * len(courses)
    figure, grid = new_figure(COLUMN_INCHES, height, nrows=3, sharex=True)
    names = labels_of([course.name for course in courses], _RUN_LABEL)
    runs = {name: Line((), index) for index, name in enumerate(names)}
    losses = loss_lines(courses)
    eers = []
    sets = {}
    looks = 0
    for name, course in zip(names, courses, strict=True):
        for set_name in sets_of_courses([course]):
            # Each set has its own style besides that of its run; its losses share it.
            eers += set_lines([course], set_name, "eers", first=looks)
            losses += set_lines([course], set_name, "losses", first=looks)
            sets[f"{name}, {set_name}"] = Line((), looks, mark_words=_no_words)
            looks += 1
    panels = (
        course_panel(losses, "", "Loss"),
        course_panel(rate_lines(courses), "", "Learning rate"),
        course_panel(eers, "", "EER (%)"),
    )
    for axes, panel in zip(grid, panels, strict=True):
        if panel is not None:
            draw_panel(axes, panel)
        if axes is not grid[-1]:
            axes.set_xlabel("")
    grid[0].set_title(title)
    # The losses of a single run need no name. Inside the axes, a legend would cover some points.
    add_legend(figure, sets if len(courses) == 1 else runs | sets)
    return figure


@styled
def effect_plot(effects: Effects, title: str = "") -> Figure:
    """Draw the EERs on all sets by the values of one setting, with their 95 % intervals.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(COLUMN_INCHES, 2.8)
    draw_panel(axes, effect_panel(effects, effects.sets, title))
    axes.set_xlabel(effects.settings[0])
    entries = {}
    for index, name in enumerate(effects.sets):
        entries[name] = Line((), index, mark_words=_no_words)
    add_legend(figure, entries, 2)
    return figure


@styled
def oscr_plot(results: dict[str, SourceResult], title: str = "") -> Figure:
    """Draw the OSCR curves of systems that were measured on unknown sources.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure()
    ticks = np.linspace(0, 1, 6).tolist()
    lines = []
    entries = {}
    for index, (name, result) in enumerate(results.items()):
        if result.open is not None:
            rates = [result.open.false_positive_rates, result.open.correct_rates]
            lines.append(Line(np.stack(rates, axis=1).ravel().tolist(), index))
            entries[f"{name}: {result.open.oscr:.3f}"] = Line((), index)
    x_axis = Axis(0, 1, ticks, "unknown sources accepted")
    y_axis = Axis(0, 1.02, ticks, "known sources classified correctly")
    draw_panel(axes, Panel(x_axis, y_axis, 0, 0, title, lines=lines))
    add_legend(figure, entries)
    return figure
