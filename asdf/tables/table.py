"""A table of results: rows of systems, and columns that say how their numbers are read.

Invariant: a number stands in a table with all its digits. How many of them people read, in which
unit, and which of the values is marked, is a column's and a value's own; renderers only obey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

from asdf.text import p_value_text


class Bounds(Protocol):
    """An interval, such as `asdf.metrics.bootstrap.Interval`."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


class Difference(Bounds, Protocol):
    """A difference with its interval and its test."""

    @property
    def value(self) -> float: ...

    @property
    def p_value(self) -> float | None: ...


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
        is_count: Whether values are numbers of trials, seeds and the like.
        is_shaded: Whether the page colours values as it colours EERs.
        is_left: Whether text is aligned to the left.
        whole_name: Name that `name` shortens; '' where nothing is cut.
        paper_mark: LaTeX behind the heading, such as a dagger.
        plus_minus: Sign before a deviation in text.
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
    is_count: bool = False
    is_shaded: bool = False
    is_left: bool = False
    whole_name: str = ""
    paper_mark: str = ""
    plus_minus: str = "±"

    @property
    def heading(self) -> str:
        """The name, with the unit if it is stated there."""
        return f"{self.name} %" if self.percent and self.states_unit else self.name

    def with_values(self, numbers: Iterable[float | None]) -> tuple[Column, list[Value]]:
        """Return the column with a value per row of a table."""
        return self, list(map(Value, numbers))

    def with_texts(self, cells: Iterable[str | None]) -> tuple[Column, list[Value]]:
        """Return the column with a text per row of a table."""
        return self, [Value(text=cell) for cell in cells]

    def format(
        self,
        number: float | None,
        *,
        paper: bool = False,
        absent: str = "-",
        sign: str = "",
    ) -> str:
        """Return a number in the unit of the heading; `absent` for None.

        Args:
            paper: Whether it has the decimals of publications.
            sign: '+' shows the sign of differences that are positive, too.
        """
        if number is None:
            return absent
        if self.is_count:
            return str(number)
        shown = 100 * number if self.percent else number
        return f"{shown:{sign}.{self.paper_digits if paper else self.digits}f}"

    def format_bounds(self, bounds: Bounds, between: str, *, paper: bool = False) -> str:
        """Return both ends of an interval in the unit of the heading."""
        low = self.format(bounds.low, paper=paper)
        return f"{low}{between}{self.format(bounds.high, paper=paper)}"

    def format_intervals(self, intervals: Mapping[str, Bounds]) -> str:
        """Return intervals by what they are over, with the space before them; '' without any."""
        shown = []
        for over, interval in intervals.items():
            shown.append(f"{self.format_bounds(interval, ' .. ')} over {over}")
        return f"   95 %: {', '.join(shown)}" if shown else ""

    def format_difference(self, difference: Difference, *, paper: bool = False) -> list[str]:
        """Return a difference with its sign, its interval and its p-value."""
        value = self.format(difference.value, paper=paper, sign="+")
        low = self.format(difference.low, paper=paper, sign="+")
        high = self.format(difference.high, paper=paper, sign="+")
        p_value = "-" if difference.p_value is None else p_value_text(difference.p_value)
        return [value, f"{low} .. {high}", p_value.removeprefix("= ")]


class Spread(Protocol):
    """A mean over seeds, with its deviation."""

    @property
    def mean(self) -> float: ...

    @property
    def deviation(self) -> float | None: ...

    @property
    def interval(self) -> Bounds | None: ...


@dataclass(frozen=True)
class Value:
    """A value of a table.

    Attributes:
        number: Number with all its digits; None: not defined.
        intervals: Intervals of 95 % by what they are over, such as 'trials'.
        is_best: Whether a test says that it is the best of its column.
        text: Text in place of a number, by which the page still sorts.
        deviation: Standard deviation over seeds, of which the number is the mean.
        is_lowest: Whether it is the lowest of its column, maybe by chance.
        remark: Text behind it on the page, without a gap.
        paper_remark: Text behind it in a paper, without a gap.
        title: Text that the page shows where the pointer rests.
        css: Class on the page, instead of that of its colour.
    """

    number: float | None = None
    intervals: Mapping[str, Bounds] = field(default_factory=dict)
    is_best: bool = False
    text: str | None = None
    deviation: float | None = None
    is_lowest: bool = False
    remark: str = ""
    paper_remark: str = ""
    title: str = ""
    css: str = ""

    @classmethod
    def of_spread(cls, spread: Spread | None, **options: Any) -> Value:
        """Return a mean over seeds with its deviation and interval; `options` are attributes."""
        if spread is None:
            return cls()
        intervals = {} if spread.interval is None else {"trials": spread.interval}
        return cls(spread.mean, intervals, deviation=spread.deviation, **options)

    @classmethod
    def with_intervals(
        cls, numbers: Iterable[float | None], drawn: Iterable[Bounds | None]
    ) -> list[Value]:
        """Return numbers with their intervals over trials, where these were drawn."""
        values = []
        for number, bounds in zip(numbers, drawn, strict=True):
            values.append(cls(number, {} if bounds is None else {"trials": bounds}))
        return values


Columns = list[tuple[Column, Sequence[Value]]]
"""Columns with their values, one per row of a table."""


@dataclass(frozen=True)
class Table:
    """A value for each column and row.

    Attributes:
        rows: Names of the rows.
        columns: Columns with their values, one per row.
        row_heading: Heading of the names.
        notes: Sentences below it.
        labels: Shorter names that are shown instead; empty: the names.
    """

    rows: Sequence[str]
    columns: Sequence[tuple[Column, Sequence[Value]]]
    row_heading: str = ""
    notes: Sequence[str] = ()
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        for column, values in self.columns:
            if len(values) != len(self.rows):
                raise ValueError(f"{column.key}: {len(values)} values for {len(self.rows)} rows")


def each(rows: Iterable[object], attribute: str) -> list[Any]:
    """Return an attribute of what each row is of; dots lead to attributes of attributes."""
    return list(map(attrgetter(attribute), rows))


def texts(key: str, cells: Sequence[str], **options: Any) -> tuple[Column, list[Value]]:
    """Return a column of texts, whose heading is its key; `options` are attributes of a column."""
    return Column(key, key, lower_is_better=None, **options).with_texts(cells)


def counts(key: str, numbers: Sequence[int], **options: Any) -> tuple[Column, list[Value]]:
    """Return a column of numbers of trials, seeds and the like, whose heading is its key."""
    column = Column(key, key, is_count=True, lower_is_better=None, **options)
    return column.with_values(numbers)


def rate(key: str, name: str = "", digits: int = 2, **options: Any) -> Column:
    """Return a column of rates in per cent, whose unit stands above the table.

    Args:
        name: Heading; '' is the key.
        digits: Decimals in text; papers have two.
        options: Attributes of the column.
    """
    options = {"percent": True, "states_unit": False, "digits": digits, "paper_digits": 2} | options
    return Column(key, name or key, **options)


RATE = rate("rate")
"""A rate in per cent with two decimals, for sentences."""
