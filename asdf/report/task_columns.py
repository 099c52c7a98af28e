"""The columns of source tracing and of localisation, for pages and papers alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asdf.metrics.bootstrap import Interval
from asdf.report.task_results import TaskResult
from asdf.tables.table import Column, Columns, Value, each, rate
from asdf.tasks.localisation.located_record import LocatedResult
from asdf.tasks.tracing.source_measures import SourceResult
from asdf.tasks.tracing.source_tables import metric_values

_UNIT: dict[str, Any] = {"states_unit": True, "lower_is_better": False}

_CLOSED = (
    rate("accuracy", "Accuracy", **_UNIT),
    rate("balanced_accuracy", "Balanced", in_papers=False, **_UNIT),
    rate("macro_f1", "Macro-F1", **_UNIT),
)
_OPEN = (rate("unknown_eer", "Unknown EER", states_unit=True), rate("oscr", "OSCR", **_UNIT))

RANGE_EER = rate("range_eer", "Range EER", states_unit=True)
POINT_EER = rate("point_eer", "Point EER", states_unit=True)
_FRACTIONS = (
    Column("f1", "F1", lower_is_better=False),
    Column("iou", "IoU", lower_is_better=False),
    Column("precision", "Precision", lower_is_better=False, in_papers=False),
    Column("recall", "Recall", lower_is_better=False, in_papers=False),
    Column("threshold", "Threshold", lower_is_better=None, in_papers=False),
)


def source_columns(entries: Sequence[TaskResult[SourceResult]]) -> Columns:
    """Return the columns of source tracing; those of open sets where any result has one."""
    results = each(entries, "result")
    columns: Columns = []
    for column in (*_CLOSED, *(_OPEN if any(result.open for result in results) else ())):
        numbers = [metric_values(result).get(column.key) for result in results]
        drawn = [result.intervals.get(column.key) for result in results]
        columns.append((column, _with_intervals(numbers, drawn)))
    return columns


def located_columns(entries: Sequence[TaskResult[LocatedResult]]) -> Columns:
    """Return the columns of localisation."""
    results = each(entries, "result")
    columns: Columns = []
    for column in (RANGE_EER, POINT_EER, *_FRACTIONS):
        numbers = [getattr(result, column.key) for result in results]
        drawn = [result.intervals.get(column.key) for result in results]
        columns.append((column, _with_intervals(numbers, drawn)))
    return columns


def _with_intervals(
    numbers: Sequence[float | None], drawn: Sequence[Interval | None]
) -> list[Value]:
    values = []
    for number, interval in zip(numbers, drawn, strict=True):
        values.append(Value(number, {} if interval is None else {"trials": interval}))
    return values
