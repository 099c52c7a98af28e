"""Traced sources as text, for programs, and as a picture of the confusion matrix.

Invariant: numbers are those of `evaluate_sources`; text has percents, JSON has fractions with all
digits. The picture says all that it shows in words too: a screen reader reads the table of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.sax.saxutils import escape

from asdf.tables.table import Columns, Table, Value, counts, rate
from asdf.tables.text import as_lines
from asdf.tasks.tracing.measures import FALSE_POSITIVE_RATES, SourceResult
from asdf.text import aligned, shorten

_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "unknown_eer": "EER of known against unknown",
    "oscr": "OSCR, area",
}
_RATE = rate("rate", digits=3)
# A matrix of more classes is no table that anybody reads; the picture and JSON have it.
_MOST_COLUMNS = 16
_LABEL = 16
_CELL = 34
_MARGIN = 130
# White numbers are read on colours beyond this share of the darkest one.
_DARK = 0.6


def sources_text(title: str, result: SourceResult) -> str:
    """Return the metrics, the classes and the confusion matrix as text, in percent."""
    lines = [
        f"{title}: {len(result.classes)} classes of the column {result.column}; {result.known} "
        f"trials of known sources, {result.unknown} of unknown ones, {result.of_no_class} of none",
        *aligned(_metric_rows(result), right={1}),
        "",
        *as_lines(class_table(result, ("class", "trials", "precision", "recall", "F1"))),
    ]
    if has_matrix_table(result):
        lines += ["", *as_lines(matrix_table(result, "trials of, called"))]
    return "\n".join(lines)


def metric_values(result: SourceResult) -> dict[str, float]:
    """Return all metrics as fractions, by their names; those of open sets where there is one."""
    values = dict(result.closed)
    if result.open is not None:
        values |= {"unknown_eer": result.open.eer, "oscr": result.open.oscr}
    return values


def sources_record(name: str, set_name: str, result: SourceResult) -> dict[str, Any]:
    """Return everything as plain values, for JSON; the OSCR curve has up to 200 points."""
    record: dict[str, Any] = {
        "system": name,
        "set": set_name,
        "column": result.column,
        "classes": list(result.classes),
        "known": result.known,
        "unknown": result.unknown,
        "of_no_class": result.of_no_class,
        **metric_values(result),
        "by_class": [asdict(entry) for entry in result.by_class],
        "confusion": result.confusion_KK.tolist(),
    }
    if result.open is not None:
        record["rejection"] = result.open.rejection
        record["threshold"] = result.open.threshold
        record["correct_at_false_positives"] = dict(
            zip(map(str, FALSE_POSITIVE_RATES), result.open.correct_at, strict=True)
        )
        record["oscr_curve"] = _thinned(result)
    if result.intervals:
        record["intervals"] = {
            name: [interval.low, interval.high] for name, interval in result.intervals.items()
        }
    return record


def has_matrix_table(result: SourceResult) -> bool:
    """Whether the confusion matrix has few enough columns for a table."""
    return len(result.classes) <= _MOST_COLUMNS


def confusion_svg(title: str, result: SourceResult, prefix: str = "") -> str:
    """Return the confusion matrix as an SVG: rows are the trials' classes, columns their calls.

    Args:
        prefix: Prefix of the ids in it, which are unique on a page only if the prefixes are.
    """
    names = [shorten(name, _LABEL) for name in result.classes]
    counts = result.confusion_KK
    side = _CELL * len(names)
    width = _MARGIN + side + 10
    height = _MARGIN + side + 10
    described = "; ".join(_describe_row(result, row) for row in range(len(names)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{prefix}title {prefix}text" '
        'font-family="sans-serif" font-size="10">',
        f'<title id="{prefix}title">{escape(title)}</title>',
        f'<desc id="{prefix}text">Rows are the classes of the trials. {escape(described)}</desc>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for row, name in enumerate(names):
        middle = _MARGIN + row * _CELL + _CELL / 2
        parts.append(_label(_MARGIN - 6, middle + 3, name))
        parts.append(_label(middle, _MARGIN - 6, name, turned=True))
        total = max(1, int(counts[row].sum()))
        for column, count in enumerate(counts[row].tolist()):
            parts.append(_draw_cell(row, column, count, count / total))
    parts.append("</svg>\n")
    return "\n".join(parts)


def _draw_cell(row: int, column: int, count: int, share: float) -> str:
    left = _MARGIN + column * _CELL
    top = _MARGIN + row * _CELL
    # From white to a dark blue.
    colour = "#" + "".join(f"{round(255 - share * (255 - end)):02x}" for end in (8, 48, 107))
    text_colour = "#ffffff" if share > _DARK else "#000000"
    cell = (
        f'<rect x="{left}" y="{top}" width="{_CELL}" height="{_CELL}" fill="{colour}" '
        'stroke="#cccccc"/>'
    )
    if not count:
        return cell
    return cell + (
        f'<text x="{left + _CELL / 2:g}" y="{top + _CELL / 2 + 3:g}" text-anchor="middle" '
        f'fill="{text_colour}">{count}</text>'
    )


def _label(x: float, y: float, name: str, turned: bool = False) -> str:
    if turned:
        return f'<text transform="translate({x:g} {y:g}) rotate(-60)">{escape(name)}</text>'
    return f'<text x="{x:g}" y="{y:g}" text-anchor="end">{escape(name)}</text>'


def _describe_row(result: SourceResult, row: int) -> str:
    counts = result.confusion_KK[row].tolist()
    calls = []
    for name, count in zip(result.classes, counts, strict=True):
        if count:
            calls.append(f"{name} {count}")
    return f"{result.classes[row]}: called {', '.join(calls) or 'nothing'}"


def _metric_rows(result: SourceResult) -> list[list[str]]:
    rows = []
    for name, value in metric_values(result).items():
        interval = result.intervals.get(name)
        between = ""
        if interval is not None:
            between = f"[{_RATE.format_bounds(interval, ', ')}]"
        rows.append([f"{_NAMES[name]} %", _RATE.format(value), between])
    if result.open is not None:
        for rate, value in zip(FALSE_POSITIVE_RATES, result.open.correct_at, strict=True):
            what = f"classified correctly with {100 * rate:g} % of the unknown accepted, %"
            rows.append([what, _RATE.format(value), ""])
        rows.append([f"rejected by: {result.open.rejection}", "", ""])
    return rows


def class_table(result: SourceResult, headings: Sequence[str]) -> Table:
    """Return precision, recall and F1 of each class.

    Args:
        headings: Names of the class, of its number of trials, and of the three rates.
    """
    known = result.by_class
    name, trials, *rates = headings
    columns: Columns = [counts(trials, [entry.trials for entry in known])]
    for key, heading in zip(("precision", "recall", "f1"), rates, strict=True):
        values = [Value(getattr(entry, key)) for entry in known]
        columns.append((rate(key, heading, 3, states_unit=True), values))
    return Table([entry.name for entry in known], columns, name)


def matrix_table(result: SourceResult, heading: str) -> Table:
    """Return the confusion matrix: a row per class of the trials, a column per class called."""
    columns: Columns = []
    for name, called in zip(result.classes, result.confusion_KK.T.tolist(), strict=True):
        columns.append(counts(name, called))
    return Table(result.classes, columns, heading)


def _thinned(result: SourceResult, points: int = 200) -> list[Sequence[float]]:
    """Return points of the OSCR curve, (false positives, correct), both ends among them."""
    assert result.open is not None
    last = len(result.open.correct_rates) - 1
    chosen = sorted({round(index * last / points) for index in range(points + 1)})
    false_positives = result.open.false_positive_rates[chosen].tolist()
    return list(zip(false_positives, result.open.correct_rates[chosen].tolist(), strict=True))
