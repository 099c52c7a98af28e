"""Results as plain text: aligned tables, and CSV and JSON with all digits for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asdf.tables.table import Bounds, Column, Table, Value
from asdf.text import aligned, as_facts, csv_text

BEST = "*"
"""Mark of a value that a test says to be the best."""

_WIDTH = 80
_GAP = 2


def as_text(table: Table) -> list[str]:
    """Return blocks of at most 80 characters, each of which begins with the row names."""
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


def as_sheet(table: Table) -> list[str]:
    """Return the lines of a table of one row: its name and, below it, each value that it has."""
    rows = {}
    for column, (value,) in table.columns:
        if value.text is None and value.number is None:
            continue
        shown = value.text
        if shown is None:
            # The unit follows the value here, not the name.
            unit = "%" if column.percent else column.unit
            shown = f"{column.format(value.number)} {unit}".rstrip()
        over = []
        for kind, bounds in value.intervals.items():
            drawn = column.format_bounds(bounds, " .. ")
            over.append(f"{drawn} over {bounds.describe_groups(kind)}")
        intervals = f"   95 %: {', '.join(over)}" if over else ""
        rows[column.name] = shown + intervals + value.remark
    return as_facts(table.rows[0], rows)


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


def as_csv(
    keys: Sequence[str], records: Iterable[Mapping[str, Any]], *, has_head: bool = True
) -> str:
    """Return a row for each record; a missing key or a value of None gives an empty cell.

    Args:
        keys: Keys of the columns, in order.
        has_head: Whether the first row holds the keys.
    """
    text = io.StringIO()
    # By default csv ends lines with \r\n, unlike all other files here.
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    if has_head:
        writer.writeheader()
    for record in records:
        # Names come from files and must not be read as formulas.
        row = {key: csv_text(v) if isinstance(v, str) else v for key, v in record.items()}
        writer.writerow(row)
    return text.getvalue()


def as_json(records: Any, *, indent: int = 2) -> str:
    """Return records of plain values as the text of a JSON file."""
    # Names stay readable, since the file is UTF-8.
    return json.dumps(records, indent=indent, ensure_ascii=False) + "\n"


def bounds_record(interval: Bounds | None) -> dict[str, float] | None:
    """Return the bounds of an interval, with the number of groups if groups were resampled."""
    if interval is None:
        return None
    # `Bounds` are any interval, and may have no groups.
    groups = getattr(interval, "groups", None)
    record = {"low": interval.low, "high": interval.high}
    return record if groups is None else {**record, "groups": groups}


def bounds_records(intervals: Mapping[str, Bounds]) -> dict[str, dict[str, float] | None] | None:
    """Return the bounds of intervals by metric; None without intervals."""
    return {name: bounds_record(known) for name, known in intervals.items()} or None
