"""Tables of source tracing and of localisation for papers, as `latex` has them of detection."""

from __future__ import annotations

from collections.abc import Sequence

from asdf.report.names import labels_of
from asdf.report.task_columns import located_columns, source_columns
from asdf.report.task_results import TaskResult, TaskResults, Value, sets_of
from asdf.tables.latex import as_latex
from asdf.tables.table import Column, Table
from asdf.tables.table import Value as TableValue

_LABEL = 24


def task_tables(results: TaskResults) -> list[str]:
    """Return a table per task and set; none where nothing was measured."""
    tables = []
    for set_name in sets_of(results.traced):
        traced = [entry for entry in results.traced if entry.set == set_name]
        columns = source_columns([entry.result for entry in traced])
        tables.append(_table(f"source tracing on {set_name}", traced, columns))
    for set_name in sets_of(results.located):
        located = [entry for entry in results.located if entry.set == set_name]
        columns = located_columns([entry.result for entry in located])
        origins = dict.fromkeys(entry.result.threshold_of for entry in located)
        note = f"F1 and IoU of seconds, at the threshold of {', '.join(origins)}"
        tables.append(_table(f"localisation on {set_name}", located, columns, note))
    return tables


def _table(
    title: str,
    on_set: Sequence[TaskResult[Value]],
    columns: Sequence[tuple[Column, Sequence[TableValue]]],
    *notes: str,
) -> str:
    known = [title, *notes]
    if any(entry.result.intervals for entry in on_set):
        known.append("in brackets: 95 % intervals")
    names = labels_of([entry.system for entry in on_set], _LABEL)
    return as_latex(Table(names, columns, "System", known))
