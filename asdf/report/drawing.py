"""The plots of reports as panels: DET curves, histograms of scores, and courses of trainings.

Invariant: papers and the page show the same plots. The page holds all systems and choices at once;
its script shows and hides some of them, and without a script the first ones are visible. A
malformed record of a training, or one without a finite number, is left out of its course; the other
records stay. The page's JSON is a valid JavaScript literal without `<`, `>` and `&`, so that no
name in it can close its element or open another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeGuard

import numpy as np

from asdf.arrays import Floats
from asdf.report.curves import Histogram, ThinnedCurve, averaged, det_range, probit, thinned
from asdf.report.gathering import Gathered, Measurement
from asdf.runs.evaluations import Evaluation, metrics_evaluations
from asdf.tables.panels import Axis, Line, Panel, Upright, bars, nice_ticks

Record = dict[str, Any]
"""A line of metrics.jsonl."""
TICKED = 8
"""Number of systems that plots show at first; more lines cannot be distinguished."""


@dataclass(frozen=True)
class TrainingCourse:
    """The training of one run; a course is [epoch, value, epoch, value, ...].

    Attributes:
        smooth_loss: Means of the loss over segments of the course; empty for a short training.
        eers: Course of the EER on each set, in %.
        losses: Course of the training's loss on each set.
        chosen: Epochs whose networks have results that are shown.
        terms: Course of each further term of the training loss, by name.
    """

    name: str
    loss: list[float]
    smooth_loss: list[float]
    learning_rate: list[float]
    eers: dict[str, list[float]]
    chosen: list[float] = field(default_factory=list)
    losses: dict[str, list[float]] = field(default_factory=dict)
    terms: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no course has a point."""
        return not (self.loss or self.learning_rate or self.eers or self.losses)


def training_course(
    name: str, records: Sequence[Record], shown_networks: Sequence[str] = ()
) -> TrainingCourse:
    """Return the course of a run's training from its records.

    Args:
        shown_networks: Names such as 'epoch.20' of the networks whose results are shown.
    """
    evaluations = metrics_evaluations(records)
    epochs, losses = _step_values(records, "loss")
    rate_epochs, rates = _step_values(records, "learning_rate")
    shown = [known.epoch for known in evaluations if str(known.network) in shown_networks]
    terms = {}
    for term in dict.fromkeys(name for record in records for name in _terms_of(record)):
        terms[term] = thinned(*_step_values(records, term, _terms_of))
    return TrainingCourse(
        name=name,
        loss=thinned(epochs, losses),
        smooth_loss=averaged(epochs, losses),
        learning_rate=thinned(rate_epochs, rates),
        # Rounded, because a product has many binary digits that no plot shows.
        eers=_set_courses(evaluations, lambda known: known.eers, lambda eer: round(100 * eer, 6)),
        losses=_set_courses(evaluations, lambda known: known.losses, float),
        chosen=list(filter(is_finite_number, shown)),
        terms={name: points for name, points in terms.items() if points},
    )


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a record can be drawn."""
    # Any comparison with NaN is False.
    return isinstance(value, int | float) and abs(value) < float("inf")


def _terms_of(record: Record) -> Record:
    """Return the values of the terms in a record of a step, by name."""
    terms = record.get("terms")
    return terms if record.get("kind") == "step" and isinstance(terms, dict) else {}


def _step_values(
    records: Iterable[Record], name: str, part: Callable[[Record], Record] = dict
) -> tuple[list[float], list[float]]:
    """Return the epochs and values of the training steps with finite values.

    A diverged loss is not finite.

    Args:
        part: Function that returns the part of a record with the value.
    """
    epochs: list[float] = []
    values: list[float] = []
    for record in records:
        epoch = record.get("epoch")
        value = part(record).get(name)
        if record.get("kind") != "step":
            continue
        if is_finite_number(epoch) and is_finite_number(value):
            epochs.append(epoch)
            values.append(value)
    return epochs, values


def _set_courses(
    evaluations: Iterable[Evaluation],
    values: Callable[[Evaluation], Mapping[str, float]],
    shown: Callable[[float], float],
) -> dict[str, list[float]]:
    """Return the course of a value on each set, as shown."""
    courses: dict[str, list[float]] = {}
    for evaluation in evaluations:
        if not is_finite_number(evaluation.epoch):
            continue
        for set_name, value in values(evaluation).items():
            if is_finite_number(value):
                courses.setdefault(set_name, []).extend([evaluation.epoch, shown(value)])
    return courses


_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: Any) -> str:
    """Return the value as text for `<script type="application/json">`, keeping the order of keys.

    Raises:
        ValueError: a number is not finite.
    """
    # NaN is not valid JSON: the page's script would stop there silently.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def page_data(gathered: Gathered) -> dict[str, Any]:
    """Return the data of the page's script; rates and EERs are in %."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for name in gathered.sets:
        sets[name] = []
        for measured in gathered.on(name):
            # The curves of all spoofs, named '', and of the attacks that fit on the page.
            curves = {name: measured.curves[name] for name in ("", *measured.page_attacks)}
            rates = {name: curve.rates for name, curve in curves.items()}
            thresholds = {name: curve.thresholds for name, curve in curves.items()}
            sets[name].append({"curves": rates, "thresholds": thresholds})
    runs = []
    for course in training_courses(gathered):
        # By the words of `Line.series`.
        values = {"loss": course.loss, "rate": course.learning_rate, "eer": course.eers}
        further = {"losses": course.losses, "term": course.terms}
        runs.append({"name": course.name, **values, **further})
    return {
        "systems": gathered.systems,
        "labels": gathered.labels,
        "ticked": gathered.systems[:TICKED],
        "hidden": sorted(hidden_names(gathered)),
        "sets": sets,
        "runs": runs,
    }


def hidden_names(gathered: Gathered) -> set[str]:
    """Return the systems and runs that plots hide until they are ticked."""
    # If several networks of one run are systems, their names are longer than the run's.
    runs = [name for name in gathered.names if name not in gathered.systems]
    return {*gathered.systems[TICKED:], *runs[TICKED:]}


def training_courses(gathered: Gathered) -> list[TrainingCourse]:
    """Return the training course of each run."""
    return [
        training_course(name, run.training(), gathered.networks_of(index))
        for index, (name, run) in enumerate(zip(gathered.names, gathered.runs, strict=True))
    ]


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


def page_colours() -> dict[str, tuple[str, str]]:
    """Return the light and the dark colour of each variable of the pages' style."""
    style = (files("asdf.report") / "page" / "style.css").read_text(encoding="utf-8")
    colours: dict[str, tuple[str, str]] = {}
    for name, light, dark, other in re.findall(
        r"--([\w-]+): (?:light-dark\((#\w+), (#\w+)\)|var\(--([\w-]+)\));", style
    ):
        colours[name] = colours[other] if other else (light, dark)
    return colours


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
        marks.append(replace(line, points=curve.eer_point, series="", css="", mark_words=[words]))
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
        "Share of each class; the vertical line is the threshold of the EER, the outermost bars "
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
        pairs = zip(points[::2], points[1::2], strict=True)
        words = [f"{course.name}, epoch {x:g}: {y:g}{unit}" for x, y in pairs]
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
