"""Figures for papers, and every plot of a report in a file of its own, by matplotlib.

They draw the panels of the report's page (`asdf.report.drawing`), and matrices with numbers in
their cells.

Invariant: the same numbers give the same file, byte for byte (no date, no random ids), so that a
figure in a paper's repository changes only when a number does. Systems differ in dashes as well as
in colour, for grey prints and colour-blind readers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asdf.arrays import Floats
from asdf.errors import UsageError
from asdf.metrics.detection import DetCurve
from asdf.metrics.results import Condition
from asdf.report.curves import Histogram, ThinnedCurve
from asdf.report.curves import thinned_det as thinned_det
from asdf.report.drawing import (
    NamedCurve,
    TrainingCourse,
    course_lines,
    course_panel,
    det_panel,
    histogram_panel,
    loss_lines,
    page_colours,
    set_lines,
    sets_of_courses,
    training_courses,
)
from asdf.report.effect_pictures import Effects, effect_panel, find_effects
from asdf.report.gathering import Gathered
from asdf.report.llr_pictures import ece_panel, reliability_panel, tippett_panel
from asdf.report.result_tables import columns_of, conditions_by_value, eers_of
from asdf.runs.files import atomic_write
from asdf.tables.panels import Axis, Line, Matrix, Panel
from asdf.tables.table import labels_of
from asdf.tasks.tracing.source_measures import SourceResult, confusion_matrix
from asdf.text import AnyPath
from asdf.trials.how_scored import in_precision, role_words

FORMATS = ("pdf", "png", "svg")

# The curves of all spoofs and of eight attacks need nine colours.
COLOURS = tuple(page_colours()[f"c{index}"][0] for index in range(9))
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
)
MARKS = "os^Dv"
COLUMN_INCHES = 3.5
"""Width of a column in a two-column paper, in inches."""

_LOOK: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "pdf.fonttype": 42,  # journals refuse the type 3 fonts that are matplotlib's default
    "svg.fonttype": "none",  # text stays text, which can be searched
    "svg.hashsalt": "asdf",  # otherwise ids are random, and the file differs at each run
    "savefig.dpi": 300,
    "text.parse_math": False,  # names of files and attacks may hold dollar signs
}
# Metadata that removes the date from a file; matplotlib writes no date into a PNG.
_UNDATED: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
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


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the project's style, independent of the user's own matplotlibrc."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_LOOK)
        yield


def new_figure(width: float = COLUMN_INCHES, height: float = 2.8, rows: int = 1) -> Figure:
    """Return a figure of that size in inches, with axes below each other."""
    # pyplot would keep every figure and may look for a display.
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.subplots(nrows=rows, sharex=True)
    return figure


@styled()
def draw_panels(
    panels: Sequence[Panel | None],
    legend: Mapping[str, Line],
    title: str = "",
    *,
    height: float = 2.7,
    columns: int = 1,
) -> Figure:
    """Return panels below each other, which share the horizontal axis and a legend below them.

    Args:
        legend: Names with the styles of their lines, in a number of columns.
        height: Height of the figure in inches, besides that of the legend's lines.
    """
    lines = -(-len(legend) // columns)
    figure = new_figure(COLUMN_INCHES, height + 0.14 * lines, len(panels))
    for axes, panel in zip(figure.axes, panels, strict=True):
        if panel is not None:
            draw_panel(axes, panel)
        if axes is not figure.axes[-1]:
            axes.set_xlabel("")
    figure.axes[0].set_title(title)
    handles = [Line2D([], [], label=name, **line_style(line)) for name, line in legend.items()]
    # Inside the axes, a legend would cover some points.
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def draw_panel(axes: Any, panel: Panel) -> None:
    """Draw a panel of the page onto axes of matplotlib, in the positions of the panel's scales."""
    x, y = panel.x, panel.y
    for line in panel.lines:
        style = line_style(line)
        if line.css == "diagonal":
            style = {"color": "0.7", "linewidth": 0.6, "zorder": 0}
        xs = x.scale(line.points[::2])
        ys = y.scale(line.points[1::2])
        if line.is_area:
            # Hatching distinguishes the classes in grey too.
            hatch = "//" if line.index % 2 else ""
            axes.fill(xs, ys, alpha=0.3, color=style["color"], hatch=hatch)
            continue
        # A single point may lie beyond the axes: its mark is then drawn at their ends.
        if len(xs) == 1:
            xs = np.clip(xs, *x.scale([x.low, x.high]))
            ys = np.clip(ys, *y.scale([y.low, y.high]))
            style |= {"zorder": 3, "clip_on": False, "markersize": 4.5}
        axes.plot(xs, ys, **style)
    for upright in panel.uprights:
        at = x.scale(upright.x)
        axes.axvline(at, color="0.3", linewidth=0.8, linestyle=":")
        in_frame = {"transform": axes.get_xaxis_transform(), "va": "top"}
        axes.text(at, 1, f" {upright.label}", fontsize=6, color="0.3", **in_frame)
    axes.set_xticks(x.scale(x.ticks), list(map(x.text, x.ticks)))
    axes.set_yticks(y.scale(y.ticks), list(map(y.text, y.ticks)))
    axes.set(xlim=x.scale([x.low, x.high]), ylim=y.scale([y.low, y.high]))
    axes.set(xlabel=x.label, ylabel=y.label, title=panel.title)
    axes.grid(True)


def line_style(line: Line) -> dict[str, Any]:
    """Return colour, dashes and marker of a line; 45 numbers have distinct colours and dashes."""
    index = line.index
    style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": "none"}
    if line.is_linked:
        style["linestyle"] = DASHES[index % len(DASHES)]
    if line.css in ("interval", "noise"):
        style["linewidth"] = 0.8
    if line.css == "noise":
        style["alpha"] = 0.3
    if line.mark_words:
        # Shapes differ, so that overlapping marks can be distinguished.
        style["marker"] = MARKS[index % len(MARKS)]
        style |= {"markersize": 3, "markerfacecolor": "white"}
    return style


# Styled as well: fonts and resolution are settings that are read on saving.
@styled()
def save_figure(figure: Figure, path: AnyPath) -> None:
    """Write a figure atomically; the suffix of `path` is the format.

    Raises:
        UsageError: the suffix is not one of `FORMATS`.
        AsdfError: the file cannot be written.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(
            f"{path}: plots are written as {', '.join(FORMATS)}. Give the file one of these "
            "suffixes."
        )
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format=kind, metadata=_UNDATED.get(kind, {}))


@styled()
def _draw(matrix: Matrix, size: tuple[float, float], font_size: float) -> Figure:
    """Draw a matrix of this size in inches, with a colour bar."""
    figure = new_figure(*size)
    axes = figure.axes[0]
    options: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": matrix.highest}
    image = axes.imshow(matrix.values, aspect="auto", **options)
    if len(matrix.rows) <= _MOST_NUMBERED or font_size > _SMALL:
        for (row, column), text in np.ndenumerate(matrix.texts):
            if text:
                colour = "white" if matrix.is_dark(row, column) else "black"
                style: dict[str, Any] = {"ha": "center", "va": "center", "color": colour}
                axes.text(column, row, text, fontsize=font_size, **style)
    axes.set_xticks(range(len(matrix.columns)), matrix.columns)
    axes.set_yticks(range(len(matrix.rows)), matrix.rows)
    axes.tick_params(length=0)
    axes.set(xlabel=matrix.column_heading, ylabel=matrix.row_heading, title=matrix.title)
    figure.colorbar(image, ax=axes, label=matrix.scale)
    return figure


def confusion_plot(result: SourceResult, title: str = "") -> Figure:
    """Draw the proportion of each class (row) that is predicted as each class (column)."""
    matrix = confusion_matrix(result, title)
    side = max(COLUMN_INCHES, 1.4 + 0.28 * len(matrix.rows))
    figure = _draw(matrix, (side, side - 0.4), _SMALL)
    axes = figure.axes[0]
    axes.tick_params(labelsize=6)
    axes.set(aspect="equal")
    # Rotated, because names of adjacent columns would overlap.
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="right")
    return figure


def heat_map(
    conditions: Mapping[str, Sequence[Condition | None]], systems: Sequence[str], title: str = ""
) -> Figure:
    """Draw the EERs of `systems`, one column each, by condition; darker for higher EERs."""
    # A value that a system does not have is None, which becomes NaN.
    eers = np.array(list(map(eers_of, conditions.values())), np.float64)
    figure = _eer_map(eers, list(conditions), systems, title, room=(0.9, 0.24))
    # Many horizontal names would overlap.
    figure.axes[0].tick_params(axis="x", rotation=20 if len(systems) > 3 else 0)
    return figure


def effect_map(effects: Effects, set_name: str, title: str = "") -> Figure:
    """Draw the mean EERs on a set by the values of two settings; darker for higher EERs."""
    down, across = effects.values(0), effects.values(1)
    eers = np.full((len(down), len(across)), np.nan)
    for point in effects.points:
        if set_name in point.eers:
            row, column = point.values
            eers[down.index(row), across.index(column)] = point.eers[set_name].mean
    return _eer_map(eers, down, across, title, effects.settings, room=(1.2, 0.3))


def _eer_map(
    eers: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    headings: Sequence[str] = ("", ""),
    *,
    room: tuple[float, float],
) -> Figure:
    """Draw EERs; `room` is the height in inches of what surrounds the rows, and of a row."""
    percents = 100 * eers
    texts = np.where(np.isnan(percents), "", np.char.mod("%.2f", percents)).tolist()
    # At least 1 %: among systems without errors, 0.02 % should not look like the worst.
    highest = float(np.nanmax(percents, initial=1.0))
    matrix = Matrix(rows, columns, percents, texts, title, highest, "EER (%)", *headings)
    width = max(COLUMN_INCHES, 1.2 + 0.7 * len(columns))
    return _draw(matrix, (width, room[0] + room[1] * len(rows)), 7)


def det_plot(systems: Mapping[str, ThinnedCurve], title: str = "") -> Figure:
    """Draw the DET curve of each system, with a mark at its EER, in the range of the page."""
    labels = labels_of(list(systems), _LABEL)
    curves = []
    legend = {}
    for index, (curve, label) in enumerate(zip(systems.values(), labels, strict=True)):
        curves.append(NamedCurve(curve, label, Line((), index)))
        legend[f"{label}: EER {100 * curve.eer:.2f} %"] = _marked(index)
    is_narrow = max(map(len, legend)) <= _NARROW_LABEL and len(legend) > _FEW_SYSTEMS
    height = COLUMN_INCHES + 0.26
    figure = draw_panels(
        [det_panel(curves)], legend, title, height=height, columns=2 if is_narrow else 1
    )
    figure.axes[0].tick_params(labelsize=7)
    figure.axes[0].set_aspect("equal")
    return figure


def _marked(index: int) -> Line:
    """Return the style of a line with marks."""
    return Line((), index, mark_words=[""])


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


def training_curves(courses: Sequence[TrainingCourse]) -> Figure:
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
    rates = course_lines(courses, [course.learning_rate for course in courses], "rate:")
    panels = (
        course_panel(losses, "", "Loss"),
        course_panel(rates, "", "Learning rate"),
        course_panel(eers, "", "EER (%)"),
    )
    # The losses of a single run need no name.
    legend = sets if len(courses) == 1 else runs | sets
    return draw_panels(panels, legend, height=4.6)


def effect_plot(effects: Effects) -> Figure:
    """Draw the EERs on all sets by the values of one setting, with their 95 % intervals."""
    legend = {name: _marked(index) for index, name in enumerate(effects.sets)}
    figure = draw_panels([effect_panel(effects, effects.sets)], legend, columns=2)
    figure.axes[0].set_xlabel(effects.settings[0])
    return figure


def oscr_plot(results: Mapping[str, SourceResult]) -> Figure:
    """Draw the OSCR curves of systems that were measured on unknown sources."""
    ticks = np.linspace(0, 1, 6).tolist()
    lines = []
    legend = {}
    for index, (name, result) in enumerate(results.items()):
        if result.open is not None:
            rates = [result.open.false_positive_rates, result.open.correct_rates]
            lines.append(Line(np.stack(rates, axis=1).ravel().tolist(), index))
            legend[f"{name}: {result.values['oscr']:.3f}"] = Line((), index)
    x_axis = Axis(0, 1, ticks, "unknown sources accepted")
    y_axis = Axis(0, 1.02, ticks, "known sources classified correctly")
    return draw_panels([Panel(x_axis, y_axis, 0, 0, lines=lines)], legend)


def ratio_plot(kind: str, systems: Mapping[str, DetCurve]) -> Figure:
    """Draw likelihood ratios of each system; `kind` is 'tippett', 'ece' or 'reliability'."""
    panel, legend = _RATIOS[kind](systems)
    return draw_panels([panel], legend)


def write_plots(
    folder: Path, gathered: Gathered, formats: Sequence[str] = ("pdf", "png")
) -> list[Path]:
    """Write the plots of what was gathered `for_plots` into `folder`.

    The plots are, for each set: DET curves of its systems, and a heat map of EERs for each column
    with conditions; for each system on it: DET curves and histograms by attack; for all runs: the
    effect of one or two settings, and their training courses.

    Returns:
        Paths of the files written.

    Raises:
        UsageError: a format is not one of `FORMATS`.
        AsdfError: a file cannot be written.
    """
    written = []
    for name, figure in _figures(gathered):
        # `asvspoof21-la-eval` for 'asvspoof21-la:eval'.
        file_name = "_".join(re.sub(r"[^\w.+-]+", "-", part) for part in name)
        for suffix in formats:
            path = folder / f"{file_name}.{suffix}"
            save_figure(figure, path)
            written.append(path)
    return written


def _figures(gathered: Gathered) -> Iterator[tuple[list[str], Figure]]:
    """Draw each figure, with the parts of the name of its file."""
    for set_name in gathered.sets:
        measured = gathered.in_order_of_runs(set_name)
        curves = {}
        for known in measured:
            scored = known.summary.scored
            remark = in_precision(scored.precision) + role_words(scored.role)
            curves[f"{known.system}{remark}"] = known.curves[""]
        yield ["det", set_name], det_plot(curves, set_name)
        systems = [known.system for known in measured]
        summaries = [known.summary for known in measured]
        for column in columns_of(summaries):
            conditions = conditions_by_value(summaries, column)
            if len(conditions) >= _MIN_CONDITIONS:
                yield ["eer_by", column, set_name], heat_map(conditions, systems, set_name)
        for known in measured:
            title = f"{known.system} on {set_name}"
            threshold = known.summary.result.eer_threshold
            name = ["scores", known.system, set_name]
            yield name, score_histograms(known.histogram, threshold, title)
            # Without known attacks, the plot of the set shows the curve of all spoofs.
            of_attacks = {attack: curve for attack, curve in known.curves.items() if attack}
            if of_attacks:
                yield ["det_by_attack", *name[1:]], det_plot(of_attacks, title)
    effects = find_effects(gathered)
    # Tables show the effects of more settings.
    if effects is not None and len(effects.settings) == 1:
        yield ["effect", *effects.settings], effect_plot(effects)
    elif effects is not None and len(effects.settings) == 2:
        for set_name in effects.sets:
            name = ["effect", *effects.settings, set_name]
            yield name, effect_map(effects, set_name, set_name)
    courses = [course for course in training_courses(gathered) if not course.is_empty]
    if courses:
        yield ["training"], training_curves(courses)
