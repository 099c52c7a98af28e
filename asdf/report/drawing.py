"""The plots of the page as they stand in it before its script draws them anew, or where no script is run.

Invariant: they show the systems that are ticked at first, with the numbers of the page's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from asdf.report.curves import det_range, probit
from asdf.report.data import TICKED, page_training
from asdf.report.frames import Axis, Frame, legend, line, marker, nice_ticks
from asdf.report.gathering import Gathered, Measurement
from asdf.report.markup import Html, markup, tag

_PANELS = (("loss", "Loss"), ("rate", "Learning rate"), ("eer", "EER (%)"))


def det(gathered: Gathered, name: str) -> Html:
    """The DET curves over all spoofs, with their legend."""
    shown = _shown(gathered, name)
    eers = [100 * one.summary.result.eer for one in shown]
    shape = det_range(eers)
    ends = shape.low, shape.high
    frame = Frame(
        Axis(*ends, shape.ticks, "False alarm: spoof accepted (%)", _deviate),
        Axis(*ends, shape.ticks, "Miss: bona fide rejected (%)", _deviate),
        500,
        500,
    )
    places = {system: index for index, system in enumerate(gathered.systems)}
    for one in shown:
        frame.inside.append(line(places[one.system], frame.path(one.curves[""].rates)))
    words = []
    for one, eer in zip(shown, eers, strict=True):
        words.append(f"{gathered.labels[one.system]}: EER {eer:.2f} %")
        held = min(max(eer, ends[0]), ends[1])
        mark = marker(places[one.system], frame.x(held), frame.y(held), words[-1])
        frame.above.append(mark)
    drawn = frame.svg(f"DET curves on {name}. {'; '.join(words)}", "det")
    entries = [(places[one.system], gathered.labels[one.system]) for one in shown]
    return markup(drawn, legend(entries) if len(entries) > 1 else None)


def histograms(gathered: Gathered, name: str) -> list[Html]:
    """A histogram for each system, all over the same range of scores."""
    shown = _shown(gathered, name)
    low = min(one.histogram.low for one in shown)
    high = max(one.histogram.high for one in shown)
    return [_histogram(one, gathered.labels[one.system], low, high) for one in shown]


def training(gathered: Gathered) -> list[Html]:
    """Loss, learning rate and EER on the first validation set, by epoch."""
    runs = page_training(gathered)
    ticked = set(gathered.systems[:TICKED])
    # A run goes by its name, the systems of several of its networks by longer ones.
    shown = [index for index, run in enumerate(runs) if run["name"] in ticked][:TICKED]
    shown = shown or list(range(min(len(runs), TICKED)))
    sets = list(dict.fromkeys(name for run in runs for name in run["eer"]))
    drawn = [_panel(runs, shown, kind, label, sets[0] if sets else "") for kind, label in _PANELS]
    parts = [one for one in drawn if one is not None]
    if len(shown) > 1 and parts:
        parts.append(legend([(index, runs[index]["name"]) for index in shown]))
    return parts


def _panel(
    runs: Sequence[dict[str, Any]], shown: Sequence[int], kind: str, label: str, name: str
) -> Html | None:
    series = [_series(runs[index], kind, name) for index in shown]
    values = list(chain.from_iterable(series))
    xs, ys = values[::2], values[1::2]  # each of the series has as many of both
    if not xs:
        return None
    last = max(xs) * 1.04
    top = max(0.0, *ys) * 1.05 or 1.0
    bottom = min(0.0, *ys) * 1.05
    title = f"EER on {name}" if kind == "eer" else label
    frame = Frame(
        Axis(0, last or 1.0, nice_ticks(0, last or 1.0, 4), "Epoch"),
        Axis(bottom, top, nice_ticks(bottom, top, 5), label),
        360,
        245,
        title,
    )
    for index, points in zip(shown, series, strict=True):
        if not points:
            continue
        frame.inside.append(line(index, frame.path(points)))
        for x, y in zip(points[::2], points[1::2], strict=True) if kind == "eer" else ():
            chosen = "chosen" if x in runs[index]["chosen"] else ""
            words = f"{runs[index]['name']}, epoch {x:g}: {y:g} %"
            frame.above.append(marker(index, frame.x(x), frame.y(y), words, chosen))
    return frame.svg(f"{title} by epoch", kind)


def _series(run: dict[str, Any], kind: str, name: str) -> Sequence[float]:
    """A course as [epoch, value, epoch, value, ...]; that of the EER is on the set `name`."""
    course: Sequence[float] = run["eer"].get(name, []) if kind == "eer" else run[kind]
    return course


def _histogram(one: Measurement, label: str, low: float, high: float) -> Html:
    classes = one.histogram.bona_fide, one.histogram.spoof[""]
    shares = [[100 * count / (sum(counts) or 1) for count in counts] for counts in classes]
    top = 1.06 * max(map(max, shares))
    frame = Frame(
        Axis(low, high, nice_ticks(low, high, 4), "Score (higher: more bona fide)"),
        Axis(0, top, nice_ticks(0, top, 4), "Share (%)"),
        360,
        220,
        label,
    )
    width = (one.histogram.high - one.histogram.low) / len(classes[0])
    for index, values in enumerate(shares):
        points = [one.histogram.low, 0.0]
        for number, value in enumerate(values):
            start = one.histogram.low + number * width
            points += [start, value, start + width, value]
        points += [one.histogram.high, 0.0]
        frame.inside.append(tag("path", class_=f"area c{index}", d=frame.path(points) + "Z"))
        frame.inside.append(line(index, frame.path(points)))
    threshold = one.summary.result.eer_threshold
    upright = frame.path([threshold, 0, threshold, top])
    frame.inside.append(tag("path", class_="threshold", d=upright))
    at, text = frame.x(threshold), f"{threshold:.4g}".replace("-", "−")
    anchor, shift = ("end", -4) if at > 250 else ("start", 4)
    x = f"{at + shift:.1f}"
    frame.above.append(tag("text", text, x=x, y=38, text_anchor=anchor, class_="soft halo"))
    words = f"Scores of {label}, bona fide and spoofs; threshold of the EER {text}"
    return frame.svg(words, "histogram")


def _shown(gathered: Gathered, name: str) -> list[Measurement]:
    ticked = set(gathered.systems[:TICKED])
    measured = gathered.on(name)
    return [one for one in measured if one.system in ticked] or measured[:TICKED]


def _deviate(percent: float) -> float:
    return float(probit(percent / 100))
