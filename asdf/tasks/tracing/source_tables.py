"""Results of source tracing as text, as JSON, and as a plot of the confusion matrix.

Invariant: the numbers are those of `evaluate_sources`; text has per cent, JSON fractions with all
digits. The plot also states its content in words: a screen reader reads the table of classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from asdf.metrics.intervals import read_intervals
from asdf.tables.matrices import Matrix
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Columns, Table, Value, counts, each, rate
from asdf.tasks.tracing.source_measures import (
    CLOSED_METRICS,
    FALSE_POSITIVE_RATES,
    ClassResult,
    OpenSet,
    SourceResult,
)
from asdf.text import aligned

_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "unknown_eer": "EER of known against unknown",
    "oscr": "OSCR, area",
}
_RATE = rate("rate", digits=3)
# Maximum number of columns of a readable matrix in text; the plot and JSON show larger ones.
_MOST_COLUMNS = 16
_POINTS = 200

_UNIT: dict[str, Any] = {"states_unit": True, "lower_is_better": False}

_CLOSED = (
    rate("accuracy", "Accuracy", **_UNIT),
    rate("balanced_accuracy", "Balanced", in_papers=False, **_UNIT),
    rate("macro_f1", "Macro-F1", **_UNIT),
)
_OPEN = (rate("unknown_eer", "Unknown EER", states_unit=True), rate("oscr", "OSCR", **_UNIT))


def sources_text(title: str, result: SourceResult) -> str:
    """Return the metrics, the classes and the confusion matrix as text, in percent."""
    rows = []
    for name, value in metric_values(result).items():
        interval = result.intervals.get(name)
        between = "" if interval is None else f"[{_RATE.format_bounds(interval, ', ')}]"
        rows.append([f"{_NAMES[name]} %", _RATE.format(value), between])
    if result.open is not None:
        for accepted, value in zip(FALSE_POSITIVE_RATES, result.open.correct_at, strict=True):
            what = f"classified correctly with {100 * accepted:g} % of the unknown accepted, %"
            rows.append([what, _RATE.format(value), ""])
        rows.append([f"rejected by: {result.open.rejection}", "", ""])
    lines = [
        f"{title}: {len(result.classes)} classes of the column {result.column}; {result.known} "
        f"trials of known sources, {result.unknown} of unknown ones, {result.of_no_class} of none",
        *aligned(rows, right={1}),
        "",
        *as_lines(class_table(result, ("class", "trials", "precision", "recall", "F1"))),
    ]
    if has_matrix_table(result):
        lines += ["", *as_lines(matrix_table(result, "trials of, called"))]
    return "\n".join(lines)


def metric_values(result: SourceResult) -> dict[str, float]:
    """Return all metrics as fractions, by name; open-set metrics if there are any."""
    values = dict(result.closed)
    if result.open is not None:
        values |= {"unknown_eer": result.open.eer, "oscr": result.open.oscr}
    return values


def source_columns(results: Sequence[SourceResult]) -> Columns:
    """Return the columns of some results; open-set columns if any result has them."""
    columns: Columns = []
    for column in (*_CLOSED, *(_OPEN if any(result.open for result in results) else ())):
        numbers = [metric_values(result).get(column.key) for result in results]
        drawn = [result.intervals.get(column.key) for result in results]
        columns.append((column, Value.with_intervals(numbers, drawn)))
    return columns


def sources_record(name: str, set_name: str, result: SourceResult) -> dict[str, Any]:
    """Return all results as plain values, for JSON; the OSCR curve has up to 200 points."""
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
        # Both ends of the curve are included.
        last = len(result.open.correct_rates) - 1
        # A set, since on a short curve several fall on one point.
        chosen = sorted({round(index * last / _POINTS) for index in range(_POINTS + 1)})
        false_positives = result.open.false_positive_rates[chosen].tolist()
        correct = result.open.correct_rates[chosen].tolist()
        record["oscr_curve"] = list(zip(false_positives, correct, strict=True))
    if result.intervals:
        record["intervals"] = {
            name: [interval.low, interval.high] for name, interval in result.intervals.items()
        }
    return record


def source_result(record: Mapping[str, Any]) -> SourceResult:
    """Return the result that `sources_record` wrote; its OSCR curve has the recorded points.

    Raises:
        ValueError, TypeError, KeyError: the record has another form.
    """
    open_set = None
    if "rejection" in record:
        curve = np.array(record["oscr_curve"], np.float64)
        correct_at = record["correct_at_false_positives"]
        open_set = OpenSet(
            rejection=str(record["rejection"]),
            eer=float(record["unknown_eer"]),
            threshold=float(record["threshold"]),
            oscr=float(record["oscr"]),
            false_positive_rates=curve[:, 0],
            correct_rates=curve[:, 1],
            correct_at=tuple(float(correct_at[str(rate)]) for rate in FALSE_POSITIVE_RATES),
        )
    classes = tuple(map(str, record["classes"]))
    confusion_KK = np.array(record["confusion"], np.int64)
    if confusion_KK.shape != (len(classes), len(classes)):
        raise ValueError(f"a matrix of shape {confusion_KK.shape} for {len(classes)} classes")
    return SourceResult(
        classes=classes,
        column=str(record["column"]),
        confusion_KK=confusion_KK,
        known=int(record["known"]),
        unknown=int(record["unknown"]),
        of_no_class=int(record["of_no_class"]),
        closed={name: float(record[name]) for name in CLOSED_METRICS},
        by_class=[ClassResult(**entry) for entry in record["by_class"]],
        open=open_set,
        intervals=read_intervals(record),
    )


def has_matrix_table(result: SourceResult) -> bool:
    """Whether the confusion matrix has few enough columns for a table."""
    return len(result.classes) <= _MOST_COLUMNS


def confusion_matrix(result: SourceResult, title: str = "") -> Matrix:
    """Return the matrix with the true classes as rows and the predicted classes as columns."""
    counts = result.confusion_KK
    return Matrix(
        result.classes,
        result.classes,
        # A class without a trial has a row of zeros.
        counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        np.where(counts > 0, counts.astype(str), "").tolist(),
        title,
        scale="proportion of the row",
        row_heading=result.column,
        column_heading="called",
    )


def confusion_svg(title: str, result: SourceResult, prefix: str = "") -> str:
    """Return the confusion matrix as an SVG, with ids that begin with `prefix`."""
    rows = []
    for name, numbers in zip(result.classes, result.confusion_KK.tolist(), strict=True):
        known = zip(result.classes, numbers, strict=True)
        calls = [f"{other} {count}" for other, count in known if count]
        rows.append(f"{name}: called {', '.join(calls) or 'nothing'}")
    description = f"Rows are the classes of the trials. {'; '.join(rows)}"
    return confusion_matrix(result, title).svg(description, prefix)


def class_table(result: SourceResult, headings: Sequence[str]) -> Table:
    """Return precision, recall and F1 of each class.

    Args:
        headings: Headings of the class, its number of trials, and the three rates.
    """
    known = result.by_class
    name, trials, *rates = headings
    columns: Columns = [counts(trials, each(known, "trials"))]
    for key, heading in zip(("precision", "recall", "f1"), rates, strict=True):
        columns.append(rate(key, heading, 3, states_unit=True).with_values(each(known, key)))
    return Table(each(known, "name"), columns, name)


def matrix_table(result: SourceResult, heading: str) -> Table:
    """Return the confusion matrix: a row per true class, a column per predicted class."""
    columns = list(map(counts, result.classes, result.confusion_KK.T.tolist()))
    return Table(result.classes, columns, heading)
