"""The columns of source tracing and of localisation, for pages and papers alike."""

from __future__ import annotations

from collections.abc import Sequence

from asdf.report.located import LocatedResult
from asdf.tables.table import Column, Value
from asdf.tasks.tracing.measures import SourceResult
from asdf.tasks.tracing.tables import metric_values


def _rate(key: str, name: str, *, lower_is_better: bool = False, in_papers: bool = True) -> Column:
    return Column(
        key,
        name,
        percent=True,
        digits=3,
        paper_digits=2,
        in_papers=in_papers,
        lower_is_better=lower_is_better,
    )


_CLOSED = (
    _rate("accuracy", "Accuracy"),
    _rate("balanced_accuracy", "Balanced", in_papers=False),
    _rate("macro_f1", "Macro-F1"),
)
_OPEN = (_rate("unknown_eer", "Unknown EER", lower_is_better=True), _rate("oscr", "OSCR"))

RANGE_EER = _rate("range_eer", "Range EER", lower_is_better=True)
POINT_EER = _rate("point_eer", "Point EER", lower_is_better=True)
_FRACTIONS = (
    Column("f1", "F1", lower_is_better=False),
    Column("iou", "IoU", lower_is_better=False),
    Column("precision", "Precision", lower_is_better=False, in_papers=False),
    Column("recall", "Recall", lower_is_better=False, in_papers=False),
    Column("threshold", "Threshold", lower_is_better=None, in_papers=False),
)


def source_columns(results: Sequence[SourceResult]) -> list[tuple[Column, list[Value]]]:
    """Return the columns of source tracing; those of open sets where any result has one."""
    columns = []
    for column in (*_CLOSED, *(_OPEN if any(result.open for result in results) else ())):
        values = []
        for result in results:
            interval = result.intervals.get(column.key)
            drawn = {} if interval is None else {"trials": interval}
            values.append(Value(metric_values(result).get(column.key), drawn))
        columns.append((column, values))
    return columns


def located_columns(results: Sequence[LocatedResult]) -> list[tuple[Column, list[Value]]]:
    """Return the columns of localisation."""
    columns = []
    for column in (RANGE_EER, POINT_EER, *_FRACTIONS):
        values = []
        for result in results:
            interval = result.intervals.get(column.key)
            drawn = {} if interval is None else {"trials": interval}
            values.append(Value(getattr(result, column.key), drawn))
        columns.append((column, values))
    return columns
