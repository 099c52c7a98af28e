"""Figures for papers: DET curves, histograms of scores, trainings, effects, OSCR, ratios.

They draw the panels of the report's page, see `asdf.report.drawing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from asdf.metrics.detection import DetCurve
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
from asdf.report.llr_pictures import ece_panel, reliability_panel, tippett_panel
from asdf.report.plots.figures import COLUMN_INCHES, draw_panels
from asdf.tables.labels import labels_of
from asdf.tables.panels import Axis, Line, Panel
from asdf.tasks.studies.effects import Effects
from asdf.tasks.tracing.source_measures import SourceResult

_LABEL = 34
_RUN_LABEL = 30
# Maximum length of labels that fit side by side below a plot of one column.
_NARROW_LABEL = 24
_FEW_SYSTEMS = 3


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


def tippett_plot(systems: Mapping[str, DetCurve], title: str = "") -> Figure:
    """Draw Tippett curves of both classes of each system."""
    drawn = tippett_panel(systems)
    return draw_panels([drawn.panel], drawn.legend, title)


def ece_plot(systems: Mapping[str, DetCurve], title: str = "") -> Figure:
    """Draw the empirical cross-entropy of each system, as measured and after PAV."""
    drawn = ece_panel(systems)
    return draw_panels([drawn.panel], drawn.legend, title)


def reliability_plot(systems: Mapping[str, DetCurve], title: str = "") -> Figure:
    """Draw the reliability diagram of each system, with 95 % intervals."""
    drawn = reliability_panel(systems)
    return draw_panels([drawn.panel], drawn.legend, title)
