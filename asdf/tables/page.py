"""Tables of the page as plain data; the templates in page/ turn them into HTML.

Invariant: nothing here is markup. The templates escape every text, so a name such as `</script><b>`
is shown as it is, wherever it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from asdf.tables.table import Bounds, Column, Value

Text = str | int | float | None
"""What a cell shows; None is nothing."""

ABSENT = "–"
"""Shown where a table has no value; the page's script sorts it last."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: Text that it shows.
        value: Value that it is sorted by and copied as, such as all digits of a rounded number or
            the whole of a name that is cut; None is the text itself.
        css: its class.
        title: shown where the pointer rests on the cell.
        mark: 'best', 'lowest' or '', shown behind the text.
        remark: shown behind text and mark, without a gap.
        interval: shown below the text.
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
        """The value with all its digits; None where the cell needs none."""
        return None if self.value is None else str(self.value)

    @property
    def is_number(self) -> bool:
        """Whether the cell is aligned as numbers are: to the right."""
        # What is copied decides: a rounded number is a text with a value.
        value = self.text if self.value is None else self.value
        return isinstance(value, int | float)


@dataclass(frozen=True)
class PageTable:
    """A table with a caption; the first cell of each row is the row's header."""

    caption: str
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    css: str = ""

    @cached_property
    def number_columns(self) -> frozenset[int]:
        """The columns with a number in any row; all their cells are aligned to the right."""
        columns: set[int] = set()
        for row in self.rows:
            for index, cell in enumerate(row):
                if cell.is_number:
                    columns.add(index)
        return frozenset(columns)


def head_cells(names: Sequence[str]) -> list[Cell]:
    """Return the names as the head of a table."""
    return list(map(Cell, names))


def name_cell(name: str, label: str) -> Cell:
    """Return a name by its label; the pointer and a copy get the whole name."""
    # A name that is not cut needs neither.
    if name == label:
        return Cell(name)
    return Cell(label, name, title=name)


def value_cell(column: Column, value: Value) -> Cell:
    """Return a value as papers round it, with its interval over trials below."""
    if value.number is None:
        return Cell(ABSENT)
    bounds = value.intervals.get("trials")
    return Cell(
        column.format(value.number, paper=True).replace("-", "−"),
        100 * value.number if column.percent else value.number,
        interval="" if bounds is None else column.format_bounds(bounds, "–", paper=True),
    )


def count_cell(count: int) -> Cell:
    """Return a number of trials, its thousands separated."""
    return Cell(f"{count:,}", count)


def percent(rate: float) -> str:
    """Return a fraction in per cent, such as '13.75'."""
    return f"{100 * rate:.2f}"


def interval_text(interval: Bounds, scale: float = 100, digits: int = 2) -> str:
    """Return the bounds of an interval times `scale`, such as '12.31–15.02'."""
    low = scale * interval.low
    high = scale * interval.high
    return f"{low:.{digits}f}–{high:.{digits}f}"
