"""The plots of reports as panels: DET curves, histograms of scores, and courses of trainings.

Invariant: papers and the page show the same plots. The page holds all systems and choices at once;
its script shows and hides some of them, and without a script the first ones are visible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from asdf.arrays import Floats
from asdf.report.courses import TrainingCourse, hidden_names, training_courses
from asdf.report.curves import Histogram, ThinnedCurve, det_range, probit
from asdf.report.gathering import Gathered, Measurement
from asdf.tables.panels import Axis, Line, Panel, Upright, bars, nice_ticks, words_at

# CSS class of plots that stand side by side.
_SIDE_BY_SIDE = "canvas many"
_POOLED = "all spoofs"
_EACH = "each attack"


@dataclass(frozen=True)
class Legend:
    """The names of lines, each with its style.

    Attributes:
        title: Title of the list of names; '' if nothing can be ticked.
        labels: Displayed name of each line.
        choice: Choice to which the legend belongs; None for any.
    """

    title: str
    entries: list[tuple[Line, str]]
    choice: str | None = None


@dataclass(frozen=True)
class Figure:
    """Panels with a title and a text.

    Attributes:
        kind: Kind of the values of its lines, for the page's script.
        choices: Choices between its parts, by their labels; empty if there are none.
        choose: Words before the choices.
    """

    kind: str
    title: str
    text: str
    panels: list[Panel]
    set: str = ""
    css: str = _SIDE_BY_SIDE
    legends: list[Legend] = field(default_factory=list)
    choices: dict[str, str] = field(default_factory=dict)
    choose: str = ""

    @property
    def chosen(self) -> str | None:
        """The first choice, shown until the reader selects another; None without choices."""
        return next(iter(self.choices), None)


class NamedCurve(NamedTuple):
    """A DET curve with its displayed name, in the style of a line."""

    curve: ThinnedCurve
    label: str
    line: Line


def det_panel(curves: Sequence[NamedCurve], title: str = "", choice: str | None = None) -> Panel:
    """Return DET curves on axes of normal deviates, each with a mark at its EER.

    Args:
        title: Subject of the curves, for the description.
    """
    low, high, ticks = det_range([100 * named.curve.eer for named in curves])
    lines = [Line([low, low, high, high], css="diagonal")]
    marks = []
    all_words = []
    for curve, label, line in curves:
        words = f"{label}: EER {100 * curve.eer:.2f} %"
        lines.append(replace(line, points=curve.rates))
        at_eer = words_at({curve.eer_point[0]: words})
        marks.append(replace(line, points=curve.eer_point, series="", css="", mark_words=at_eer))
        if not line.is_hidden:
            all_words.append(words)
    x_axis = Axis(low, high, ticks, "False alarm: spoof accepted (%)", _deviates)
    y_axis = Axis(low, high, ticks, "Miss: bona fide rejected (%)", _deviates)
    described = f"DET curves on {title}. {'; '.join(all_words)}"
    is_perfect = all(named.curve.eer == 0 for named in curves)
    note = "No error at the threshold of the EER" if is_perfect else ""
    panel = Panel(x_axis, y_axis, 500, 500, "", "det", described, [*lines, *marks])
    return replace(panel, choice=choice, note=note)


def _deviates(percents: Any) -> Floats:
    """Return the normal deviates of rates in %, including rates beyond the axes."""
    return probit(np.asarray(percents) / 100, 0.0, 1.0)


def det_figure(gathered: Gathered, set_name: str) -> Figure:
    """Return the DET curves over all spoofs, over each attack, and those of a single system."""
    measured = gathered.on(set_name)
    attacks = _attacks(measured)
    choices = {_POOLED: _POOLED}
    panels = []
    legends = []
    if len(measured) == 1 and attacks:
        choices = {_EACH: _EACH} | choices
        curves = []
        for index, attack in enumerate(["", *attacks]):
            name, css = (attack, "") if attack else (_POOLED, "pooled")
            line = Line((), index, name, f"0:{attack}", css, _EACH)
            curves.append(NamedCurve(measured[0].curves[attack], name, line))
        panels.append(det_panel(curves, set_name, _EACH))
        legends.append(Legend("Spoofs", [(named.line, named.label) for named in curves], _EACH))
    # The prefix keeps an attack's name from equalling one of our choices.
    choices |= {f"={attack}": f"only {attack}" for attack in attacks}
    for attack in ("", *attacks):
        choice = f"={attack}" if attack else _POOLED
        curves = []
        for number, known in enumerate(measured):
            if attack in known.curves:
                line = replace(_system_line(gathered, known), series=f"{number}:{attack}")
                label = gathered.labels[known.system]
                curves.append(NamedCurve(known.curves[attack], label, line))
        if choice == _POOLED and len(curves) > 1:
            legends.append(Legend("Systems", [(named.line, named.label) for named in curves]))
        panels.append(det_panel(curves, set_name, choice))
    text = (
        "Both axes are normal deviates of the rates. A mark shows where the EER is taken: it is "
        "the mean of the two rates there."
    )
    if not attacks:
        choices = {_POOLED: _POOLED}
    drawn = (panels, set_name, "canvas", legends, choices, "Curves of")
    return Figure("det", "DET curves", text, *drawn)


def _system_line(gathered: Gathered, measured: Measurement) -> Line:
    """Return the style of a system, which is the same on every set."""
    index = gathered.systems.index(measured.system)
    is_hidden = measured.system in hidden_names(gathered)
    return Line((), index, measured.system, is_hidden=is_hidden)


def _attacks(measured: Sequence[Measurement]) -> list[str]:
    """Return the attacks for which the page has curves and histograms."""
    return list(dict.fromkeys(name for known in measured for name in known.page_attacks))


def histogram_figure(gathered: Gathered, set_name: str) -> Figure:
    """Return a histogram for each system, all over the same range of scores."""
    measured = gathered.on(set_name)
    attacks = _attacks(measured)
    # All have one range, so that systems can be compared visually.
    low = min(known.histogram.low for known in measured)
    high = max(known.histogram.high for known in measured)
    panels = []
    for known in measured:
        counts = known.histogram
        # A system that lacks trials of an attack shows all of its spoofs.
        spoofs = {name: counts.spoof.get(name, counts.spoof[""]) for name in ("", *attacks)}
        label = gathered.labels[known.system]
        threshold = known.summary.result.eer_threshold
        panel = histogram_panel(counts, spoofs, threshold, label, (low, high))
        line = _system_line(gathered, known)
        panels.append(replace(panel, name=line.name, is_hidden=line.is_hidden))
    classes = [(Line((), index), name) for index, name in enumerate(("bona fide", "spoof"))]
    text = (
        "Share of each class; the upright line is the threshold of the EER, the outermost bars "
        "hold all beyond them."
    )
    choices = {"": "all attacks"} | {name: name for name in attacks}
    drawn = (panels, set_name, _SIDE_BY_SIDE, [Legend("", classes)], choices, "Spoofs of")
    return Figure("histograms", "Scores", text, *drawn)


def histogram_panel(
    counts: Histogram,
    spoofs: Mapping[str, Sequence[int]] | Mapping[None, Sequence[int]],
    threshold: float | None = None,
    title: str = "",
    ends: tuple[float, float] | None = None,
) -> Panel:
    """Return the shares of both classes in bins of scores.

    Args:
        spoofs: Counts of the spoofs that each choice shows; None: always shown.
        threshold: Score to mark.
        ends: Lowest and highest score of the axis; None: those of the bins.
    """
    low, high = ends or (counts.low, counts.high)
    edges = np.linspace(counts.low, counts.high, len(counts.bona_fide) + 1)
    lines: list[Line] = []
    top = 0.0
    for choice, numbers in ((None, counts.bona_fide), *spoofs.items()):
        # A class without trials has proportions of 0.
        shares = 100 * np.asarray(numbers) / (sum(numbers) or 1)
        top = max(top, float(shares.max()))
        lines += bars(edges, shares, 1 if lines else 0, choice)
    top = 1.06 * top
    uprights = []
    words = ""
    if threshold is not None:
        text = f"{threshold:.4g}".replace("-", "−")
        uprights.append(Upright(threshold, text, "threshold of the EER"))
        words = f"; threshold of the EER {text}"
    x_axis = Axis(low, high, nice_ticks(low, high, 4), "Score (higher: more bona fide)")
    y_axis = Axis(0, top, nice_ticks(0, top, 4), "Share (%)")
    described = f"Scores of {title}, bona fide and spoofs{words}"
    return Panel(x_axis, y_axis, 360, 220, title, "histogram", described, lines, uprights)


def training_figure(gathered: Gathered) -> Figure:
    """Return loss, learning rate and EER on each validation set, by epoch."""
    courses = training_courses(gathered)
    sets = sets_of_courses(courses)
    hidden = hidden_names(gathered)
    choices = {name: name for name in sets}
    panels: list[Panel | None] = []
    for name in sets or [""]:
        choice = name if len(sets) > 1 else None
        on_set = set_lines(courses, name, "losses", hidden)
        title = f"Loss (marked: on {name})" if on_set else "Loss"
        panels.append(course_panel([*loss_lines(courses, hidden), *on_set], title, "Loss", choice))
    for name in dict.fromkeys(name for course in courses for name in course.terms):
        terms = [course.terms.get(name, []) for course in courses]
        lines = course_lines(courses, terms, f"term:{name}", hidden)
        panels.append(course_panel(lines, f"Term {name} of the loss", name))
    rates = course_lines(courses, [course.learning_rate for course in courses], "rate:", hidden)
    panels.append(course_panel(rates, "Learning rate", "Learning rate"))
    for name in sets:
        choice = name if len(sets) > 1 else None
        eers = set_lines(courses, name, "eers", hidden)
        panels.append(course_panel(eers, f"EER on {name}", "EER (%)", choice))
    legends = []
    # The legend of a single line would repeat the page's text.
    if len(courses) > 1 and any(panels):
        entries = [(_run_line(courses, i, hidden), c.name) for i, c in enumerate(courses)]
        legends.append(Legend("Runs", entries))
    text = "By epoch; filled marks are the networks whose results are shown."
    drawn = (list(filter(None, panels)), "", _SIDE_BY_SIDE, legends, choices, "Validation set")
    return Figure("training", "Course", text, *drawn)


def sets_of_courses(courses: Sequence[TrainingCourse]) -> list[str]:
    """Return the validation sets of the trainings."""
    return list(dict.fromkeys(name for known in courses for name in (*known.eers, *known.losses)))


def _run_line(courses: Sequence[TrainingCourse], index: int, hidden: Collection[str]) -> Line:
    name = courses[index].name
    return Line((), index, name, is_hidden=name in hidden)


def loss_lines(courses: Sequence[TrainingCourse], hidden: Collection[str] = ()) -> list[Line]:
    """Return the training losses; a long, noisy one is overlaid with the means of its segments."""
    lines = []
    for index, course in enumerate(courses):
        line = _run_line(courses, index, hidden)
        css = "noise" if course.smooth_loss else ""
        lines.append(replace(line, points=course.loss, series=f"{index}:loss:", css=css))
        lines.append(replace(line, points=course.smooth_loss))
    return [line for line in lines if line.points]


def course_lines(
    courses: Sequence[TrainingCourse],
    points: Sequence[Sequence[float]],
    series: str,
    hidden: Collection[str] = (),
) -> list[Line]:
    """Return one course of each training, such as its learning rates."""
    return [
        replace(_run_line(courses, index, hidden), series=f"{index}:{series}", points=of_course)
        for index, of_course in enumerate(points)
        if of_course
    ]


def set_lines(
    courses: Sequence[TrainingCourse],
    set_name: str,
    kind: Literal["eers", "losses"],
    hidden: Collection[str] = (),
    first: int = 0,
) -> list[Line]:
    """Return the measurements on a validation set, with a mark for each evaluation.

    Args:
        first: Style number of the first line.
    """
    unit = " %" if kind == "eers" else f" on {set_name}"
    key = "eer" if kind == "eers" else "losses"
    lines = []
    for index, course in enumerate(courses):
        points = getattr(course, kind).get(set_name, [])

        # The name is a default because a closure would have that of the last course.
        def words(x: float, y: float, name: str = course.name) -> str:
            return f"{name}, epoch {x:g}: {y:g}{unit}"

        line = _run_line(courses, index, hidden)
        line = replace(line, index=first + index, series=f"{index}:{key}:{set_name}")
        # The mark of a network whose results are shown is filled.
        lines.append(replace(line, points=points, mark_words=words, chosen=course.chosen))
    return [line for line in lines if line.points]


def course_panel(
    lines: Sequence[Line], title: str, label: str, choice: str | None = None
) -> Panel | None:
    """Return courses by epoch; None if none of them has a point."""
    if not lines:
        return None
    epochs = [epoch for line in lines for epoch in line.points[::2]]
    values = [value for line in lines for value in line.points[1::2]]
    # Leave room beyond the last epoch and the highest value, so that their marks are not clipped.
    # The range is not zero even if the only records are those of epoch 0, or all losses are 0.
    last = max(epochs) * 1.04 or 1.0
    top = max(0.0, *values) * 1.05 or 1.0
    bottom = min(0.0, *values) * 1.05
    words = []
    for line in lines:
        if line.series and not line.is_hidden:
            unit = f" on {line.series.split(':', 2)[2]}" if ":losses:" in line.series else ""
            x, y = line.points[-2:]
            words.append(f"{line.name}: {y:.4g}{unit} at epoch {x:.4g}")
    css = {"Loss": "loss", "Learning rate": "rate"}.get(label, "eer")
    x_axis = Axis(0, last, nice_ticks(0, last, 4), "Epoch")
    y_axis = Axis(bottom, top, nice_ticks(bottom, top, 5), label)
    described = f"{title} by epoch. {'; '.join(words)}"
    return Panel(x_axis, y_axis, 360, 245, title, css, described, list(lines), choice=choice)
