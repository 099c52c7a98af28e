"""A table of results: rows of systems, and columns that say how their numbers are read.

Invariant: a number stands in a table with all its digits. How many of them people read, in which
unit, and which of the values is marked, is a column's and a value's own; renderers only obey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Bounds(Protocol):
    """An interval, such as `asdf.metrics.bootstrap.Interval`."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


@dataclass(frozen=True)
class Column:
    """What the values of a column are.

    Attributes:
        key: Name for programs: in JSON, and as the column of a CSV.
        name: Name in text, without the unit.
        percent: Whether values are fractions that people read in per cent.
        states_unit: Whether the heading has the unit.
        digits: Decimals in text, those of a per cent value if it is one.
        paper_digits: Decimals in publications.
        in_papers: Whether tables of publications have it.
        lower_is_better: Direction in which systems are ranked; None: they are not.
        marked: Whether values are marked where a test says that they are the best.
        over: Kinds of intervals that have columns of their own in text, by their heading.
    """

    key: str
    name: str
    percent: bool = False
    states_unit: bool = True
    digits: int = 4
    paper_digits: int = 4
    in_papers: bool = True
    lower_is_better: bool | None = True
    marked: bool = False
    over: Mapping[str, str] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The name, with the unit if it is stated there."""
        return f"{self.name} %" if self.percent and self.states_unit else self.name

    def format(self, number: float | None, *, paper: bool = False, absent: str = "-") -> str:
        """Return a number in the unit of the heading; `absent` for None."""
        if number is None:
            return absent
        return self._rounded(number, paper)

    def format_bounds(self, bounds: Bounds, between: str, *, paper: bool = False) -> str:
        """Return both ends of an interval in the unit of the heading."""
        return f"{self._rounded(bounds.low, paper)}{between}{self._rounded(bounds.high, paper)}"

    def _rounded(self, number: float, paper: bool) -> str:
        shown = 100 * number if self.percent else number
        return f"{shown:.{self.paper_digits if paper else self.digits}f}"


@dataclass(frozen=True)
class Value:
    """A value of a table.

    Attributes:
        number: Number with all its digits; None: not defined.
        intervals: Intervals of 95 % by what they are over, such as 'trials'.
        is_best: Whether a test says that it is the best of its column.
        text: Text in place of a number.
    """

    number: float | None = None
    intervals: Mapping[str, Bounds] = field(default_factory=dict)
    is_best: bool = False
    text: str | None = None


@dataclass(frozen=True)
class Table:
    """A value for each column and row.

    Attributes:
        rows: Names of the rows.
        columns: Columns with their values, one per row.
        row_heading: Heading of the names.
        notes: Sentences below it.
    """

    rows: Sequence[str]
    columns: Sequence[tuple[Column, Sequence[Value]]]
    row_heading: str = ""
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for column, values in self.columns:
            if len(values) != len(self.rows):
                raise ValueError(f"{column.key}: {len(values)} values for {len(self.rows)} rows")


def texts(key: str, cells: Sequence[str], *, in_papers: bool = True) -> tuple[Column, list[Value]]:
    """Return a column of texts, whose heading is its key."""
    column = Column(key, key, in_papers=in_papers, lower_is_better=None)
    return column, [Value(text=cell) for cell in cells]
