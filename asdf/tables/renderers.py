"""Tables as text: for a terminal, in LaTeX for papers, as CSV and JSON; and as data of a page.

Invariant: CSV and JSON have all digits. In LaTeX, with the package booktabs, numbers are rounded as
the field publishes them, and no table is wider than a page of the class article: columns that do
not fit go into another `tabular` below. A table of the page is plain data, which the templates in
report/page turn into HTML: they escape every text, so a name such as `</script><b>` is shown
literally, wherever it came from.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
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


def records_of(table: Table, *, is_whole: bool = False) -> list[dict[str, Any]]:
    """Return a record per row: its name, its values by key, and the ends of their intervals.

    Args:
        is_whole: Whether a value that a row lacks is None, instead of left out.
    """
    records: list[dict[str, Any]] = [{table.row_heading: name} for name in table.rows]
    for column, values in table.columns:
        for record, value in zip(records, values, strict=True):
            cell = value.number if value.text is None else value.text
            if cell is not None or is_whole:
                # JSON has no NaN.
                record[column.key] = None if cell != cell else cell
            for bounds in value.intervals.values():
                record |= {f"{column.key}_low": bounds.low, f"{column.key}_high": bounds.high}
    return records


def table_csv(table: Table) -> str:
    """Return the records of a table as CSV; columns with `over` have those of their intervals."""
    keys = [table.row_heading]
    for column, _ in table.columns:
        ends = [f"{column.key}_low", f"{column.key}_high"] if column.over else []
        keys += [column.key, *ends]
    return as_csv(keys, records_of(table))


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


def bounds_records(intervals: Mapping[str, Bounds]) -> dict[str, dict[str, float]] | None:
    """Return the bounds of intervals by metric, and how many groups were resampled, if any.

    It is None without intervals.
    """
    records = {}
    for name, known in intervals.items():
        records[name] = {"low": known.low, "high": known.high}
        # `Bounds` are any interval, and may have no groups.
        if (groups := getattr(known, "groups", None)) is not None:
            records[name]["groups"] = groups
    return records or None


PACKAGES = "% \\usepackage{booktabs}\n"
"""Begins a file of such tables."""

_ESCAPED = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "…": r"\ldots{}",
}
# Text width of the class article at 10 points, the narrowest page that a table must fit.
_WIDTH_PT = 340
_GAP_PT = 12.1
# Extra width of a bold number.
_BOLD_PT = 5.0
_NO_MARKUP = str.maketrans("", "", "\\{}")
# Each kind counts as its widest letter in Computer Modern, which overestimates the width.
_WIDE = "mwMW@%—…"
_NARROW = "ijlt.,;:'|!()[] -"


def as_latex(table: Table) -> str:
    """Return a table as one or more `tabular`, with an interval of each value in brackets."""
    columns = []
    for column, values in table.columns:
        if column.in_papers:
            heading = latex_text(column.heading) + column.paper_mark
            columns.append([heading, *(_cell(column, v) for v in values)])
    names = [table.row_heading, *map(latex_text, table.labels or table.rows)]
    widths = list(map(_column_width, columns))
    room = _WIDTH_PT - _column_width(names)
    parts = []
    for group in group_columns(widths, room):
        shown = [names]
        shown += [columns[index] for index in group]
        head, *body = rows_of(shown)
        alignment = "l" + "r" * (len(head) - 1)
        # \noindent: a paragraph's indent would push a full table over the margin.
        lines = [f"\\noindent\\begin{{tabular}}{{{alignment}}}", "\\toprule"]
        lines += [_latex_row(head), "\\midrule", *map(_latex_row, body)]
        parts.append("\n".join([*lines, "\\bottomrule", "\\end{tabular}"]))
    note = "\\par\n".join(f"{{\\footnotesize {latex_text(text)}}}" for text in table.notes)
    parts.append(f"{note}\\par\n")
    return "\n\\par\\medskip\n".join(parts)


def _cell(column: Column, value: Value) -> str:
    if value.text is not None:
        return latex_text(value.text)
    text = column.format(value.number, paper=True, absent="--")
    # Only the value is bold, not its interval or mark.
    if value.is_best:
        text = f"\\textbf{{{text}}}"
    over = bracketed(value)
    if value.deviation is not None:
        text += f" $\\pm$ {column.format(value.deviation, paper=True)}"
    elif over and value.number is not None:
        text += f" ({column.format_bounds(value.intervals[over], '--', paper=True)})"
    return text + value.paper_remark


def bracketed(value: Value) -> str:
    """Return what the interval in brackets is over: speakers, if they are known; '' if none is."""
    return next((over for over in ("speakers", "trials") if over in value.intervals), "")


def latex_text(text: str) -> str:
    """Return `text` with the special characters of LaTeX escaped."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _column_width(column: Sequence[str]) -> float:
    """Return the maximum width of a column, in points at a 10-point font, with its gap."""
    widths = []
    for cell in column:
        # Count each command such as \ldots{} as one wide character.
        visible = re.sub(r"\\[a-z]+\{\}", "m", cell.replace("\\textbf", ""))
        width = sum(map(_character_width, visible.translate(_NO_MARKUP)))
        widths.append(width + _BOLD_PT if "\\textbf" in cell else width)
    return max(widths) + _GAP_PT


def _character_width(character: str) -> float:
    if character in _WIDE:
        return 10.4
    if character in _NARROW:
        return 4.0
    if character.isdigit():
        return 5.1
    return 8.0 if character.isupper() else 5.8


ABSENT = "–"
"""Shown where a table has no value; the page's script sorts it last."""

HEAT_STEPS = (0.5, 1, 2, 5, 10, 20, 30, 40)
"""EERs in % at which the colour of a cell changes."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: Text shown in the cell.
        value: Value for sorting and copying, such as all digits of a rounded number or the full
            form of a shortened name; None stands for `text`. Numbers are right-aligned.
        css: CSS class of the cell.
        title: Tooltip of the cell.
        mark: Mark behind the text: 'best', 'lowest' or ''.
        remark: Text shown directly behind text and mark.
        interval: Interval shown below the text.
    """

    text: str
    value: str | float | None = None
    css: str = ""
    title: str = ""
    mark: str = ""
    remark: str = ""
    interval: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table with a caption; the first cell of each row is the row's header."""

    caption: str
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    css: str = ""
    notes: Sequence[str] = ()

    @cached_property
    def number_columns(self) -> frozenset[int]:
        """The columns with a number in any row; all their cells are right-aligned."""
        cells = chain.from_iterable(map(enumerate, self.rows))
        return frozenset(index for index, cell in cells if isinstance(cell.value, int | float))


def name_cell(name: str, label: str) -> Cell:
    """Return a cell with a short label whose tooltip and copied text are the full name."""
    # A name that is not shortened needs neither.
    return Cell(name) if name == label else Cell(label, name, title=name)


def as_page(table: Table, caption: str, css: str = "") -> PageTable:
    """Return a table for the page: numbers rounded as in papers, intervals below values."""
    columns = [column for column, _ in table.columns]
    names = [name_cell(column.whole_name or column.heading, column.heading) for column in columns]
    rows = []
    for index, (name, label) in enumerate(zip(table.rows, table.labels or table.rows, strict=True)):
        cells = [_value_cell(column, values[index]) for column, values in table.columns]
        rows.append([name_cell(name, label), *cells])
    return PageTable(caption, [Cell(table.row_heading), *names], rows, css, table.notes)


def _value_cell(column: Column, value: Value) -> Cell:
    number = value.number
    if number is None:
        return Cell(ABSENT if value.text is None else value.text, title=value.title)
    text = value.text
    if text is None:
        # Use the minus sign, since a hyphen is half as wide and easily missed.
        text = column.format(number, paper=True).replace("-", "−")
    if column.is_count:
        text = f"{number:,}"
    if value.deviation is not None:
        text += f" ± {column.format(value.deviation, paper=True)}"
    css = f"h{heat_step(number)}" if column.is_shaded else ""
    mark = "lowest" if value.is_lowest else ""
    if value.is_best:
        css = mark = "best"
    bounds = value.intervals.get("trials")
    interval = ""
    if bounds is not None:
        # A dash between two minus signs is hard to read.
        between = " to " if bounds.low < 0 else "–"
        interval = column.format_bounds(bounds, between, paper=True).replace("-", "−")
    return Cell(
        text,
        # Sorted and copied in the unit of the heading.
        100 * number if column.percent else number,
        value.css or css,
        value.title,
        mark,
        value.remark,
        interval,
    )


def heat_step(rate: float) -> int:
    """Return the index of the colour of an EER, given as a fraction."""
    return sum(100 * rate >= step for step in HEAT_STEPS)


def count_cell(count: int) -> Cell:
    """Return a number of trials with thousands separators."""
    return Cell(f"{count:,}", count)
