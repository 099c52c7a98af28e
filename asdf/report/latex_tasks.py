"""Tables of source tracing and of localisation for papers, as `latex` has them of detection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from asdf.metrics.bootstrap import Interval
from asdf.metrics.sources import SourceResult
from asdf.report.located import LocatedResult
from asdf.report.names import labels_of
from asdf.report.sources import metric_values
from asdf.report.task_results import TaskResult, TaskResults, Value, sets_of
from asdf.tables.latex import latex_text, tabulars

_LABEL = 24
_ABSENT = "--"
_SOURCES = {
    "accuracy": r"Accuracy \%",
    "macro_f1": r"Macro-F1 \%",
    "unknown_eer": r"Unknown EER \%",
    "oscr": r"OSCR \%",
}


def task_tables(results: TaskResults) -> list[str]:
    """Return a table per task and set; none where nothing was measured."""
    tables = []
    for set_name in sets_of(results.traced):
        on_set = [entry for entry in results.traced if entry.set == set_name]
        columns = []
        for name, heading in _SOURCES.items():
            column = _column(heading, on_set, _source_cell(name))
            # Where no source is unknown, its metrics have no column.
            if set(column[1:]) != {_ABSENT}:
                columns.append(column)
        tables.append(_table(f"source tracing on {set_name}", on_set, columns))
    for set_name in sets_of(results.located):
        spoofed = [entry for entry in results.located if entry.set == set_name]
        columns = [
            _column(r"Range EER \%", spoofed, _range_eer_cell),
            _column(r"Point EER \%", spoofed, lambda result: _percent(result.point_eer)),
            _column("F1", spoofed, lambda result: _fraction_cell(result, "f1")),
            _column("IoU", spoofed, lambda result: _fraction_cell(result, "iou")),
        ]
        origins = dict.fromkeys(entry.result.threshold_of for entry in spoofed)
        note = f"F1 and IoU of seconds, at the threshold of {', '.join(origins)}"
        tables.append(_table(f"localisation on {set_name}", spoofed, columns, note))
    return tables


def _table(
    title: str,
    on_set: Sequence[TaskResult[SourceResult]] | Sequence[TaskResult[LocatedResult]],
    columns: Sequence[Sequence[str]],
    *notes: str,
) -> str:
    labels = map(latex_text, labels_of([entry.system for entry in on_set], _LABEL))
    known = [title, *notes]
    if any(entry.result.intervals for entry in on_set):
        known.append("in brackets: 95 % intervals")
    return tabulars(["System", *labels], columns, known)


def _column(
    heading: str, on_set: Sequence[TaskResult[Value]], cell: Callable[[Value], str]
) -> list[str]:
    return [heading, *(cell(entry.result) for entry in on_set)]


def _source_cell(name: str) -> Callable[[SourceResult], str]:
    """Return what writes a metric, with its interval in brackets."""

    def write_cell(result: SourceResult) -> str:
        value = metric_values(result).get(name)
        if value is None:
            return _ABSENT
        return f"{_percent(value)}{_percents(result.intervals.get(name))}"

    return write_cell


def _range_eer_cell(result: LocatedResult) -> str:
    return f"{_percent(result.range_eer)}{_percents(result.intervals.get('range_eer'))}"


def _fraction_cell(result: LocatedResult, name: Literal["f1", "iou"]) -> str:
    value = f"{getattr(result, name):.4f}"
    interval = result.intervals.get(name)
    return value if interval is None else f"{value} ({interval.low:.4f}--{interval.high:.4f})"


def _percents(interval: Interval | None) -> str:
    return "" if interval is None else f" ({_percent(interval.low)}--{_percent(interval.high)})"


def _percent(rate: float) -> str:
    return f"{100 * rate:.2f}"
