"""Figures for papers, and every plot of a report in a file of its own.

They draw the panels of the report's page, see `asdf.report.drawing`, and matrices with numbers in
their cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asdf.arrays import Floats
from asdf.metrics.detection import DetCurve
from asdf.report.conditions import ConditionTable, columns_of, condition_table
from asdf.report.courses import TrainingCourse, training_courses
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
from asdf.report.effect_pictures import Effects, effect_panel, find_effects
from asdf.report.gathering import Gathered, Measurement
from asdf.report.llr_pictures import ece_panel, reliability_panel, tippett_panel
from asdf.report.plots.figures import COLUMN_INCHES, draw_panels, new_figure, save_figure, styled
from asdf.tables.matrices import Matrix
from asdf.tables.panels import Axis, Line, Panel
from asdf.tables.table import labels_of
from asdf.tasks.tracing.source_measures import SourceResult
from asdf.tasks.tracing.source_tables import confusion_matrix
from asdf.trials.how_scored import in_precision, role_words

# The small numbers of larger matrices are not readable.
_MOST_NUMBERED = 30
_SMALL = 6
_LABEL = 34
_RUN_LABEL = 30
# Maximum length of labels that fit side by side below a plot of one column.
_NARROW_LABEL = 24
_FEW_SYSTEMS = 3
_RATIOS = {"tippett": tippett_panel, "ece": ece_panel, "reliability": reliability_panel}
# A heat map of fewer conditions shows no more than a table.
_MIN_CONDITIONS = 2


@styled
def confusion_plot(result: SourceResult, title: str = "") -> Figure:
    """Draw the proportion of each class (row) that is predicted as each class (column)."""
    matrix = confusion_matrix(result, title)
    side = max(COLUMN_INCHES, 1.4 + 0.28 * len(matrix.rows))
    figure, axes = _draw(matrix, (side, side - 0.4), 6)
    axes.tick_params(labelsize=6)
    axes.set(aspect="equal")
    # Rotated, because names of adjacent columns would overlap.
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="right")
    return figure


@styled
def heat_map(conditions: ConditionTable, systems: Sequence[str], title: str = "") -> Figure:
    """Draw the EERs of `systems`, one column each, by condition; darker for higher EERs."""
    # A value that a system does not have is None, which becomes NaN.
    percents = 100 * np.array(list(map(conditions.eers, conditions.values)), dtype=np.float64)
    size = (max(COLUMN_INCHES, 1.2 + 0.7 * len(systems)), 0.9 + 0.24 * len(conditions.values))
    figure, axes = _draw(_eers(percents, conditions.values, systems, title), size, 7)
    # Many horizontal names would overlap.
    axes.tick_params(axis="x", rotation=20 if len(systems) > 3 else 0)
    return figure


@styled
def effect_map(effects: Effects, set_name: str, title: str = "") -> Figure:
    """Draw the mean EERs on a set by the values of two settings; darker for higher EERs."""
    down = effects.values(0)
    across = effects.values(1)
    percents = np.full((len(down), len(across)), np.nan)
    for point in effects.points:
        if set_name in point.eers:
            row = down.index(point.values[0])
            percents[row, across.index(point.values[1])] = 100 * point.eers[set_name].mean
    size = (max(COLUMN_INCHES, 1.2 + 0.7 * len(across)), 1.2 + 0.3 * len(down))
    matrix = _eers(percents, down, across, title, effects.settings)
    return _draw(matrix, size, 7)[0]


def _eers(
    percents: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    headings: Sequence[str] = ("", ""),
) -> Matrix:
    texts = np.where(np.isnan(percents), "", np.char.mod("%.2f", percents)).tolist()
    # At least 1 %: among systems without errors, 0.02 % should not look like the worst.
    highest = float(np.nanmax(percents, initial=1.0))
    return Matrix(rows, columns, percents, texts, title, highest, "EER (%)", *headings)


def _draw(matrix: Matrix, size: tuple[float, float], font_size: float) -> tuple[Figure, Any]:
    """Draw a matrix of this size in inches, with a colour bar."""
    figure = new_figure(*size)
    axes = figure.axes[0]
    options: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": matrix.highest}
    image = axes.imshow(matrix.values, aspect="auto", **options)
    if len(matrix.rows) <= _MOST_NUMBERED or font_size > _SMALL:
        for row, texts in enumerate(matrix.texts):
            for column, text in enumerate(texts):
                colour = "white" if matrix.is_dark(row, column) else "black"
                if text:
                    centred: dict[str, Any] = {"ha": "center", "va": "center"}
                    axes.text(column, row, text, fontsize=font_size, color=colour, **centred)
    axes.set_xticks(range(len(matrix.columns)), matrix.columns)
    axes.set_yticks(range(len(matrix.rows)), matrix.rows)
    axes.tick_params(length=0)
    axes.set(xlabel=matrix.column_heading, ylabel=matrix.row_heading, title=matrix.title)
    figure.colorbar(image, ax=axes, label=matrix.scale)
    return figure, axes


def det_plot(systems: Mapping[str, ThinnedCurve], title: str = "") -> Figure:
    """Draw the DET curve of each system, with a mark at its EER, in the range of the page."""
    labels = labels_of(list(systems), _LABEL)
    curves = []
    legend = {}
    for index, (curve, label) in enumerate(zip(systems.values(), labels, strict=True)):
        curves.append(NamedCurve(curve, label, Line((), index)))
        legend[f"{label}: EER {100 * curve.eer:.2f} %"] = _marked(index)
    is_narrow = max(map(len, legend)) <= _NARROW_LABEL and len(legend) > _FEW_SYSTEMS
    columns = 2 if is_narrow else 1
    height = COLUMN_INCHES + 0.26
    figure = draw_panels([det_panel(curves)], legend, title, height=height, columns=columns)
    figure.axes[0].tick_params(labelsize=7)
    figure.axes[0].set_aspect("equal")
    return figure


def _marked(index: int) -> Line:
    """Return the style of a line with marks."""
    return Line((), index, mark_words=lambda x, y: "")


def score_histograms(counts: Histogram, threshold: float | None = None, title: str = "") -> Figure:
    """Draw proportions of scores in a row per attack, each with the same bona fide trials.

    Without attacks, a single row shows all spoofs. `threshold`, such as that of the EER, is marked.
    """
    spoofs = {name: attack for name, attack in counts.spoof.items() if name}
    spoofs = spoofs or {"spoof": counts.spoof[""]}
    panels = [histogram_panel(counts, {None: attack}, threshold) for attack in spoofs.values()]
    legend = {"bona fide": Line(()), "spoof": Line((), 1)}
    height = 0.76 + 0.6 * len(spoofs)
    figure = draw_panels(panels, legend, title, height=height, columns=2)
    for axes, (name, attack) in zip(figure.axes, spoofs.items(), strict=True):
        axes.set_ylabel(f"{name}\n{sum(attack):,}", rotation=0, ha="right", va="center")
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        # The value of the threshold is written once, above all rows.
        for text in list(axes.texts) if axes is not figure.axes[0] else ():
            text.remove()
    return figure


def training_curves(courses: Sequence[TrainingCourse], title: str = "") -> Figure:
    """Draw the losses, learning rates and EERs of runs on three axes, one below the other."""
    names = labels_of([course.name for course in courses], _RUN_LABEL)
    runs = {name: Line((), index) for index, name in enumerate(names)}
    losses = loss_lines(courses)
    eers = []
    sets: dict[str, Line] = {}
    for name, course in zip(names, courses, strict=True):
        for set_name in sets_of_courses([course]):
            # Each set has its own style besides that of its run; its losses share it.
            look = len(sets)
            eers += set_lines([course], set_name, "eers", first=look)
            losses += set_lines([course], set_name, "losses", first=look)
            sets[f"{name}, {set_name}"] = _marked(look)
    panels = (
        course_panel(losses, "", "Loss"),
        course_panel(rate_lines(courses), "", "Learning rate"),
        course_panel(eers, "", "EER (%)"),
    )
    # The losses of a single run need no name.
    legend = sets if len(courses) == 1 else runs | sets
    return draw_panels(panels, legend, title, height=4.6)


def effect_plot(effects: Effects, title: str = "") -> Figure:
    """Draw the EERs on all sets by the values of one setting, with their 95 % intervals."""
    legend = {name: _marked(index) for index, name in enumerate(effects.sets)}
    figure = draw_panels([effect_panel(effects, effects.sets, "")], legend, title, columns=2)
    figure.axes[0].set_xlabel(effects.settings[0])
    return figure


def oscr_plot(results: Mapping[str, SourceResult], title: str = "") -> Figure:
    """Draw the OSCR curves of systems that were measured on unknown sources."""
    ticks = np.linspace(0, 1, 6).tolist()
    lines = []
    legend = {}
    for index, (name, result) in enumerate(results.items()):
        if result.open is not None:
            rates = [result.open.false_positive_rates, result.open.correct_rates]
            lines.append(Line(np.stack(rates, axis=1).ravel().tolist(), index))
            legend[f"{name}: {result.open.oscr:.3f}"] = Line((), index)
    x_axis = Axis(0, 1, ticks, "unknown sources accepted")
    y_axis = Axis(0, 1.02, ticks, "known sources classified correctly")
    return draw_panels([Panel(x_axis, y_axis, 0, 0, lines=lines)], legend, title)


def ratio_plot(kind: str, systems: Mapping[str, DetCurve]) -> Figure:
    """Draw likelihood ratios of each system.

    Args:
        kind: Name in `_RATIOS`.
    """
    panel, legend = _RATIOS[kind](systems)
    return draw_panels([panel], legend)


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
    for name, figure in _draw_all(gathered):
        for suffix in formats:
            path = folder / f"{name}.{suffix}"
            save_figure(figure, path)
            written.append(path)
    return written


def _draw_all(gathered: Gathered) -> Iterator[tuple[str, Figure]]:
    """Draw each figure, with the name of its file without a suffix."""
    for set_name in gathered.sets:
        measured = gathered.in_order_of_runs(set_name)
        yield from _draw_set(set_name, measured)
        for system in measured:
            title = f"{system.system} on {set_name}"
            files = f"{_file_part(system.system)}_{_file_part(set_name)}"
            threshold = system.summary.result.eer_threshold
            yield f"scores_{files}", score_histograms(system.histogram, threshold, title)
            # Without known attacks, the plot of the set shows the curve of all spoofs.
            if system.attacks:
                curves = {attack: system.curves[attack] for attack in system.attacks}
                yield f"det_by_attack_{files}", det_plot(curves, title)
    yield from _draw_effects(gathered)
    courses = [course for course in training_courses(gathered) if not course.is_empty]
    if courses:
        yield "training", training_curves(courses)


def _draw_effects(gathered: Gathered) -> Iterator[tuple[str, Figure]]:
    """Draw the effect of one setting on all sets, or of two on each; tables show more."""
    effects = find_effects(gathered)
    if effects is None or len(effects.settings) > 2:
        return
    name = "_".join(["effect", *map(_file_part, effects.settings)])
    if len(effects.settings) == 1:
        yield name, effect_plot(effects)
        return
    for set_name in effects.sets:
        yield f"{name}_{_file_part(set_name)}", effect_map(effects, set_name, set_name)


def _draw_set(set_name: str, measured: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
    """Draw the DET curves of all systems on a set, and their EERs by condition."""
    curves = {}
    for system in measured:
        scored = system.summary.scored
        remark = in_precision(scored.precision) + role_words(scored.role)
        curves[f"{system.system}{remark}"] = system.curves[""]
    yield f"det_{_file_part(set_name)}", det_plot(curves, set_name)
    summaries = [system.summary for system in measured]
    systems = [system.system for system in measured]
    for column in columns_of(summaries):
        conditions = condition_table(summaries, column)
        if len(conditions.values) >= _MIN_CONDITIONS:
            name = f"eer_by_{_file_part(column)}_{_file_part(set_name)}"
            yield name, heat_map(conditions, systems, set_name)


def _file_part(name: str) -> str:
    """Return a name as a part of a file's name: `asvspoof21-la-eval` for 'asvspoof21-la:eval'."""
    return re.sub(r"[^\w.+-]+", "-", name)
