"""A table of results: one row per system, and columns that define how numbers are shown.

Invariant: a table holds every number with all its digits. Columns and values define the number of
digits shown, the unit and the marks; renderers only follow them.

Labels of systems: short enough for a table, and distinct.

Invariant: names that differ get labels that differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import Any, Protocol

from asdf.text import numbered, p_value_text, shorten


class Bounds(Protocol):
    """An interval, such as `asdf.metrics.bootstrap.Interval`."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    def describe_groups(self, what: str) -> str: ...


class Difference(Bounds, Protocol):
    """A difference with its interval and its test."""

    @property
    def value(self) -> float: ...

    @property
    def p_value(self) -> float | None: ...


@dataclass(frozen=True)
class Column:
    """The description of a column of values.

    Attributes:
        key: Name of the column in JSON and CSV.
        name: Name in text, without the unit.
        percent: Whether values are fractions shown in per cent.
        unit: Unit of values that are not in per cent; '' for none.
        states_unit: Whether the heading includes the unit.
        digits: Number of decimals in text, of the per cent value if `percent`.
        paper_digits: Number of decimals in publications.
        in_papers: Whether tables for publications include the column.
        lower_is_better: Direction in which systems are ranked; None if they are not ranked.
        marked: Whether values are marked if a test finds them the best.
        over: Kinds of intervals that get columns of their own in text, by heading.
        is_count: Whether values are numbers of trials, seeds and the like.
        is_shaded: Whether the page colours values like EERs.
        is_left: Whether text is left-aligned.
        whole_name: Full form of a shortened `name`; '' if `name` is not shortened.
        paper_mark: LaTeX behind the heading, such as a dagger.
        plus_minus: Sign before a deviation in text.
    """

    key: str
    name: str
    percent: bool = False
    unit: str = ""
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
        """The name, followed by the unit if `states_unit`."""
        return f"{self.name} %" if self.percent and self.states_unit else self.name

    def with_values(self, numbers: Iterable[float | None]) -> tuple[Column, list[Value]]:
        """Return the column with a value per row of a table."""
        return self, list(map(Value, numbers))

    def with_texts(self, cells: Iterable[str | None]) -> tuple[Column, list[Value]]:
        """Return the column with a text per row of a table."""
        return self, [Value(text=cell) for cell in cells]

    def format(
        self, number: float | None, *, paper: bool = False, absent: str = "-", sign: str = ""
    ) -> str:
        """Return a number in the unit of the heading, or `absent` for None.

        Args:
            paper: Whether to use the decimals of publications.
            sign: Sign option: '+' also shows the sign of positive differences.
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

    def format_difference(self, difference: Difference, *, paper: bool = False) -> list[str]:
        """Return a difference with its sign, its interval and its p-value."""
        value = self.format(difference.value, paper=paper, sign="+")
        low = self.format(difference.low, paper=paper, sign="+")
        high = self.format(difference.high, paper=paper, sign="+")
        return [value, f"{low} .. {high}", _p_value(difference.p_value)]


class Spread(Protocol):
    """A mean over seeds, with its standard deviation."""

    @property
    def mean(self) -> float: ...

    @property
    def deviation(self) -> float | None: ...

    @property
    def interval(self) -> Bounds | None: ...


@dataclass(frozen=True)
class Value:
    """A value in a cell of a table.

    Attributes:
        number: Number with all its digits; None if it is undefined.
        intervals: 95 % intervals by what was resampled, such as 'trials'.
        is_best: Whether a test finds it the best of its column.
        text: Text shown instead of the number, which the page still sorts by.
        deviation: Standard deviation over seeds, of which the number is the mean.
        is_lowest: Whether it is the lowest of its column, possibly by chance.
        remark: Text directly behind it on the page.
        paper_remark: Text directly behind it in a paper.
        title: Tooltip on the page.
        css: CSS class on the page, which replaces that of its colour.
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
        """Return a mean over seeds with deviation and interval; `options` are attributes."""
        if spread is None:
            return cls()
        intervals = {} if spread.interval is None else {"trials": spread.interval}
        return cls(spread.mean, intervals, deviation=spread.deviation, **options)

    @classmethod
    def with_intervals(
        cls, numbers: Iterable[float | None], drawn: Iterable[Bounds | None]
    ) -> list[Value]:
        """Return numbers with their intervals over trials, if these were computed."""
        known = zip(numbers, drawn, strict=True)
        return [cls(number, {"trials": bounds} if bounds else {}) for number, bounds in known]


Columns = list[tuple[Column, Sequence[Value]]]
"""Columns with their values, one per row of a table."""


@dataclass(frozen=True)
class Table:
    """A value for each row and column.

    Attributes:
        rows: Names of the rows.
        columns: Columns with their values, one per row.
        row_heading: Heading of the column of row names.
        notes: Sentences below the table.
        labels: Shorter names shown instead of `rows`; empty to show `rows`.
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
    """Return an attribute of each row; dots lead to nested attributes."""
    return list(map(attrgetter(attribute), rows))


def texts(key: str, cells: Sequence[str | None], **options: Any) -> tuple[Column, list[Value]]:
    """Return a column of texts with its key as heading; `options` are attributes of a column."""
    return Column(key, key, lower_is_better=None, **options).with_texts(cells)


def counts(key: str, numbers: Sequence[int], **options: Any) -> tuple[Column, list[Value]]:
    """Return a column of counts with its key as heading, such as numbers of trials or seeds."""
    column = Column(key, key, is_count=True, lower_is_better=None, **options)
    return column.with_values(numbers)


def p_values(numbers: Iterable[float | None]) -> tuple[Column, list[Value]]:
    """Return a column of p-values; '-' where there is none."""
    return texts("p", list(map(_p_value, numbers)))


def _p_value(number: float | None) -> str:
    # The heading is 'p', so the number alone says 'p ='.
    return "-" if number is None else p_value_text(number).removeprefix("= ")


def rate(key: str, name: str = "", digits: int = 2, **options: Any) -> Column:
    """Return a column of rates in per cent, with the unit stated above the table.

    Args:
        name: Heading; '' stands for the key.
        digits: Number of decimals in text; papers have two.
        options: Attributes of the column.
    """
    # The given options take precedence.
    options = {"percent": True, "states_unit": False, "digits": digits, "paper_digits": 2} | options
    return Column(key, name or key, **options)


RATE = rate("rate")
"""A rate in per cent with two decimals, for sentences."""


_SEPARATORS = "-_./ "
# Characters by which a label may exceed the requested length before it gets a number.
_MORE_ROOM = 16
_NUMBER_ROOM = len(" #99")


def labels_of(names: Sequence[str], max_length: int) -> list[str]:
    """Return names for a table or a legend.

    Names longer than `max_length` are reduced to the parts in which they differ, split at
    separators, and cut in the middle. Labels that remain equal after a few more characters get
    numbers.
    """
    short = {name: name for name in names}
    different = len(short)
    long = [name for name in names if len(name) > max_length]
    # A single long name has nothing in common with another: it is cut.
    if len(set(long)) > 1:
        # Next to whole short names, a part of a long name would look like another kind of name.
        reduced = names if any(_common_ends(list(map(_tokens, names)))) else long
        differing = _without_common_ends(list(map(_tokens, reduced)))
        for name, parts in zip(reduced, differing, strict=True):
            short[name] = "".join(parts).strip(_SEPARATORS)
    # Without their common parts, two names may have become equal.
    if len(set(short.values())) < different:
        short = {name: name for name in names}
    # A slightly longer label beats a number, which says nothing about the system.
    for length in range(max_length, max_length + _MORE_ROOM, 4):
        labels = [shorten(short[name], length) for name in names]
        if len(set(labels)) == different:
            return labels
    return numbered([shorten(name, max_length - _NUMBER_ROOM) for name in names])


def differing_parts(names: Sequence[list[str]]) -> list[list[str]]:
    """Return names, given in parts, without their common parts; each keeps at least one part."""
    shorter = _without_common_ends(names)
    if len(set(map(len, shorter))) > 1:
        return shorter
    differing = [parts for parts in zip(*shorter, strict=True) if len(set(parts)) > 1]
    # Equal names have no differing part and stay whole.
    return list(map(list, zip(*differing, strict=True))) or shorter


def _without_common_ends(names: Sequence[list[str]]) -> list[list[str]]:
    """Return the names without common parts at either end; each keeps at least one part."""
    removable = min(map(len, names)) - 1
    first, last = _common_ends(names)
    first = min(first, removable)
    last = min(last, removable - first)
    return [name[first : len(name) - last] for name in names]


def _common_ends(names: Sequence[list[str]]) -> tuple[int, int]:
    """Return the number of parts that all names begin with, and that all end with."""
    backwards = [name[::-1] for name in names]
    return _common_parts(names), _common_parts(backwards)


def _common_parts(names: Sequence[list[str]]) -> int:
    alike = takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False))
    return len(list(alike))


def _tokens(name: str) -> list[str]:
    """Return the name split after separators: 'net-', 'seed3 ', 'lr1e-4-', 'epoch.4'.

    A number stays with the word before it: in 'lr1e-4' and 'lr1e-5', the parts '4' and '5' alone
    would say too little.
    """
    return re.split(r"(?<=[-_./ ])(?=[^-_./ ])(?!\d+(?:[-_./ ]|$))", name)
