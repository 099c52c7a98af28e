"""The plots of the page as they stand in it until its script draws them, or where none is run.

Invariant: they show the systems that are ticked at first, with the numbers of the page's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from asdf.report.courses import TrainingCourse
from asdf.report.curves import Histogram, det_range, probit
from asdf.report.data import TICKED, training_courses
from asdf.report.frames import (
    Axis,
    Frame,
    Label,
    LegendEntry,
    Path,
    Plot,
    legend_entry,
    line,
    marker,
    nice_ticks,
)
from asdf.report.gathering import Gathered
from asdf.report.measurement import Measurement

# The class of plots that stand side by side.
_SIDE_BY_SIDE = "canvas many"
# A threshold farther to the right than this has its number on its left.
_RIGHT_PART = 250


@dataclass(frozen=True)
class Figure:
    """Plots with a title and a text; `kind` is what the page's script draws, `set` of which set."""

    kind: str
    title: str
    text: str
    plots: list[Plot]
    set: str = ""
    css: str = _SIDE_BY_SIDE
    legend: list[LegendEntry] = field(default_factory=list)


def det_figure(gathered: Gathered, set_name: str) -> Figure:
    """Return the DET curves over all spoofs, with their legend."""
    shown = _shown_at_first(gathered, set_name)
    range_ = det_range([100 * measured.curves[""].eer for measured in shown])
    frame = Frame(
        Axis(range_.low, range_.high, range_.ticks, "False alarm: spoof accepted (%)", _deviate),
        Axis(range_.low, range_.high, range_.ticks, "Miss: bona fide rejected (%)", _deviate),
        500,
        500,
    )
    all_words = []
    entries = []
    for measured in shown:
        curve = measured.curves[""]
        eer = 100 * curve.eer
        # A system has the same look on every set.
        index = gathered.systems.index(measured.system)
        label = gathered.labels[measured.system]
        words = f"{label}: EER {eer:.2f} %"
        frame.inside.append(line(index, frame.path(curve.rates)))
        # The mark of a perfect system would lie outside: it stands at the end of the axes.
        x, y = map(range_.hold, curve.eer_point)
        frame.marks.append(marker(index, frame.x(x), frame.y(y), words))
        entries.append(legend_entry(index, label))
        all_words.append(words)
    return Figure(
        kind="det",
        title="DET curves",
        text="Both axes are normal deviates of the rates. A mark shows where the EER is taken: "
        "it is the mean of the two rates there.",
        plots=[frame.plot(f"DET curves on {set_name}. {'; '.join(all_words)}", "det")],
        set=set_name,
        css="canvas",
        legend=entries if len(entries) > 1 else [],
    )


def histogram_figure(gathered: Gathered, set_name: str) -> Figure:
    """Return a histogram for each system, all over the same range of scores."""
    shown = _shown_at_first(gathered, set_name)
    histograms = [measured.histogram for measured in shown]
    # One range for all, so that systems can be compared by eye.
    low = min(counts.low for counts in histograms)
    high = max(counts.high for counts in histograms)
    plots = []
    for measured in shown:
        label = gathered.labels[measured.system]
        plots.append(_draw_histogram(measured, label, low, high))
    return Figure(
        kind="histograms",
        title="Scores",
        text="Share of each class; the upright line is the threshold of the EER, the outermost "
        "bars hold all beyond them.",
        plots=plots,
        set=set_name,
    )


def training_figure(gathered: Gathered) -> Figure:
    """Return loss, learning rate and EER on the first validation set, by epoch."""
    courses = training_courses(gathered)
    shown = _courses_at_first(gathered, courses)
    sets: dict[str, None] = {}
    for course in courses:
        sets.update(dict.fromkeys([*course.eers, *course.losses]))
    first_set = next(iter(sets), "")
    rates = [course.learning_rate for course in courses]
    plots = [
        _draw_losses(shown, courses, first_set),
        _draw_courses(shown, rates, "Learning rate", "rate"),
        _draw_eers(shown, courses, first_set),
    ]
    drawn = list(filter(None, plots))
    entries = []
    # The legend of a single line would say what the page says already.
    if drawn and len(shown) > 1:
        entries = [legend_entry(index, courses[index].name) for index in shown]
    return Figure(
        kind="training",
        title="Course",
        text="By epoch; filled marks are the networks whose results are shown.",
        plots=drawn,
        legend=entries,
    )


def _courses_at_first(gathered: Gathered, courses: Sequence[TrainingCourse]) -> list[int]:
    """Return the indices of the runs that the plots show at first."""
    ticked = gathered.systems[:TICKED]
    shown = [index for index, course in enumerate(courses) if course.name in ticked]
    # Systems that are several networks of one run have longer names than the run.
    return shown[:TICKED] or list(range(min(len(courses), TICKED)))


def _draw_eers(
    shown: Sequence[int], courses: Sequence[TrainingCourse], set_name: str
) -> Plot | None:
    # A run that was not validated on the set has no line.
    eers = [course.eers.get(set_name, []) for course in courses]
    title = f"EER on {set_name}"
    frame = _course_frame([eers[index] for index in shown], title, "EER (%)")
    if frame is None:
        return None
    _add_lines(frame, shown, eers)
    for index in shown:
        _add_marks(frame, index, eers[index], courses[index], " %")
    return frame.plot(f"{title} by epoch", "eer")


def _draw_losses(
    shown: Sequence[int], courses: Sequence[TrainingCourse], set_name: str
) -> Plot | None:
    """Draw the losses of training, and with marks those on a validation set."""
    of_training = [course.loss for course in courses]
    on_set = [course.losses.get(set_name, []) for course in courses]
    drawn = [points[index] for points in (of_training, on_set) for index in shown]
    is_validated = any(on_set[index] for index in shown)
    title = f"Loss (marked: on {set_name})" if is_validated else "Loss"
    frame = _course_frame(drawn, title, "Loss")
    if frame is None:
        return None
    _add_lines(frame, shown, of_training)
    _add_lines(frame, shown, on_set)
    for index in shown:
        _add_marks(frame, index, on_set[index], courses[index], f" on {set_name}")
    return frame.plot(f"{title} by epoch", "loss")


def _add_marks(
    frame: Frame, index: int, points: Sequence[float], course: TrainingCourse, unit: str
) -> None:
    """Mark what was measured on a validation set, in the look of the line number `index`."""
    for epoch, value in zip(points[::2], points[1::2], strict=True):
        # The mark of a network whose results are shown is filled.
        extra = "chosen" if epoch in course.chosen else ""
        words = f"{course.name}, epoch {epoch:g}: {value:g}{unit}"
        frame.marks.append(marker(index, frame.x(epoch), frame.y(value), words, extra))


def _draw_courses(
    shown: Sequence[int], courses: Sequence[Sequence[float]], label: str, css: str
) -> Plot | None:
    frame = _course_frame([courses[index] for index in shown], label, label)
    if frame is None:
        return None
    _add_lines(frame, shown, courses)
    return frame.plot(f"{label} by epoch", css)


def _add_lines(frame: Frame, shown: Sequence[int], courses: Sequence[Sequence[float]]) -> None:
    for index in shown:
        if courses[index]:
            frame.inside.append(line(index, frame.path(courses[index])))


def _course_frame(courses: Sequence[Sequence[float]], title: str, label: str) -> Frame | None:
    """Return a frame for courses as [epoch, value, ...]; None where none has a point."""
    epochs: list[float] = []
    values: list[float] = []
    for course in courses:
        epochs.extend(course[::2])
        values.extend(course[1::2])
    if not epochs:
        return None
    # Room beyond the last epoch and the highest value, so that their marks are whole.
    # Not zero: the only records may be those of epoch 0, and losses may all be 0.
    last = max(epochs) * 1.04 or 1.0
    top = max(0.0, *values) * 1.05 or 1.0
    bottom = min(0.0, *values) * 1.05
    x_axis = Axis(0, last, nice_ticks(0, last, 4), "Epoch")
    y_axis = Axis(bottom, top, nice_ticks(bottom, top, 5), label)
    return Frame(x_axis, y_axis, 360, 245, title)


def _draw_histogram(measured: Measurement, label: str, low: float, high: float) -> Plot:
    counts = measured.histogram
    classes = [_shares(counts.bona_fide), _shares(counts.spoof[""])]
    top = 1.06 * max(max(shares) for shares in classes)
    frame = Frame(
        Axis(low, high, nice_ticks(low, high, 4), "Score (higher: more bona fide)"),
        Axis(0, top, nice_ticks(0, top, 4), "Share (%)"),
        360,
        220,
        label,
    )
    for index, shares in enumerate(classes):
        outline = frame.path(_outline(counts, shares))
        frame.inside.append(Path(f"{outline}Z", f"area c{index}"))
        frame.inside.append(line(index, outline))
    threshold = measured.summary.result.eer_threshold
    frame.inside.append(Path(frame.path([threshold, 0, threshold, top]), "threshold"))
    # The minus of numbers: a hyphen is half as wide, and easily missed.
    text = f"{threshold:.4g}".replace("-", "−")
    frame.labels.append(_threshold_label(text, frame.x(threshold)))
    words = f"Scores of {label}, bona fide and spoofs; threshold of the EER {text}"
    return frame.plot(words, "histogram")


def _shares(counts: Sequence[int]) -> list[float]:
    # A class without trials has shares of 0.
    total = sum(counts) or 1
    return [100 * count / total for count in counts]


def _outline(counts: Histogram, shares: Sequence[float]) -> list[float]:
    """Return the corners of the bars as [score, share, ...], from the axis and back to it."""
    width = (counts.high - counts.low) / len(shares)
    points = [counts.low, 0.0]
    for number, share in enumerate(shares):
        start = counts.low + number * width
        points += [start, share, start + width, share]
    return [*points, counts.high, 0.0]


def _threshold_label(text: str, x: float) -> Label:
    if x > _RIGHT_PART:
        return Label(text, f"{x - 4:.1f}", "38", "end", "soft halo")
    return Label(text, f"{x + 4:.1f}", "38", "start", "soft halo")


def _shown_at_first(gathered: Gathered, set_name: str) -> list[Measurement]:
    ticked = gathered.systems[:TICKED]
    measured = gathered.on(set_name)
    shown = [system for system in measured if system.system in ticked]
    # The systems are ticked by the last set; on another set there may be others only.
    return shown or measured[:TICKED]


def _deviate(percent: float) -> float:
    return float(probit(percent / 100))
