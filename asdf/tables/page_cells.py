"""Tables of the results page as plain data; the templates in page/ turn them into HTML.

Invariant: nothing here is markup. The templates escape every text, so a name such as `</script><b>`
is shown literally, wherever it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from asdf.tables.table import Column, Table, Value

Text = str | int | float | None
"""What a cell shows; None is nothing."""

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
            form of a shortened name; None stands for `text`.
        css: CSS class of the cell.
        title: Tooltip of the cell.
        mark: Mark behind the text: 'best', 'lowest' or ''.
        remark: Text shown directly behind text and mark.
        interval: Interval shown below the text.
    """

    text: Text
    value: Text = None
    css: str = ""
    title: str = ""
    mark: str = ""
    remark: str = ""
    interval: str = ""

    @property
    def shown(self) -> str:
        """The text of the cell, '' for None."""
        return "" if self.text is None else str(self.text)

    @property
    def data_value(self) -> str | None:
        """The value with all its digits; None if it equals the text."""
        return None if self.value is None else str(self.value)

    @property
    def is_number(self) -> bool:
        """Whether the cell is right-aligned, as numbers are."""
        # The copied value decides, since a rounded number is a text with a value.
        value = self.text if self.value is None else self.value
        return isinstance(value, int | float)


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
        return frozenset(index for index, cell in cells if cell.is_number)


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
