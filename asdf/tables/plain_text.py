"""Tables as aligned text, split into blocks of columns of at most 80 characters."""

from __future__ import annotations

from collections.abc import Sequence

from asdf.tables.table import Column, Table, Value
from asdf.text import aligned

BEST = "*"
"""Mark of a value that a test says to be the best."""

_WIDTH = 80
_GAP = 2


def as_text(table: Table) -> list[str]:
    """Return blocks of lines, each of which begins with the row names."""
    names = _names(table)
    columns = [cells for _, cells in _columns(table)]
    widths = [_GAP + max(map(len, column)) for column in columns]
    blocks = []
    for group in group_columns(widths, _WIDTH - max(map(len, names))):
        shown = [names, *(columns[index] for index in group)]
        blocks.append("\n".join(aligned(rows_of(shown), right=range(1, len(shown)))))
    return blocks


def as_lines(table: Table) -> list[str]:
    """Return the lines of a table as one block of any width."""
    columns = _columns(table)
    right = [index for index, (column, _) in enumerate(columns, 1) if not column.is_left]
    return aligned(rows_of([_names(table), *(cells for _, cells in columns)]), right=right)


def _names(table: Table) -> list[str]:
    return [table.row_heading, *(table.labels or table.rows)]


def _columns(table: Table) -> list[tuple[Column, list[str]]]:
    columns = []
    for column, values in table.columns:
        cells = [f"{column.heading}{_mark(column)}"]
        for value in values:
            shown = column.format(value.number) if value.text is None else value.text
            if value.deviation is not None:
                shown += f" {column.plus_minus} {column.format(value.deviation)}"
            cells.append(shown + _mark(column, value.is_best))
        columns.append((column, cells))
        columns += [(column, cells) for cells in _interval_columns(column, values)]
    return columns


def _mark(column: Column, is_best: bool = False) -> str:
    # Leave a space where the mark of the best value would be.
    if not column.marked:
        return ""
    return BEST if is_best else " "


def _interval_columns(column: Column, values: Sequence[Value]) -> list[list[str]]:
    """Return a column for each kind of interval that any value has."""
    columns = []
    for kind, heading in column.over.items():
        known = [value.intervals.get(kind) for value in values]
        if not any(bounds is not None for bounds in known):
            continue
        cells = [f"{heading}{_mark(column)}"]
        for bounds in known:
            shown = "-" if bounds is None else column.format_bounds(bounds, " .. ")
            cells.append(shown + _mark(column))
        columns.append(cells)
    return columns


def rows_of(columns: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the rows of a table from its columns."""
    return list(zip(*columns, strict=True))


def group_columns(widths: Sequence[float], room: float) -> list[list[int]]:
    """Return column indices in groups whose total width fits `room`.

    A column wider than `room` forms a group of its own.
    """
    groups: list[list[int]] = []
    left = 0.0
    for index, width in enumerate(widths):
        if not groups or width > left:
            groups.append([])
            left = room
        groups[-1].append(index)
        left -= width
    return groups
