"""A plot described once: axes and lines, or a matrix of numbers, for the page and for papers.

Invariant: a panel does not know the output format. Values are in the units of the axes, and a
writer asks for positions, so both outputs show the same points. Lines differ in colour, dashes and
marks, so that they stay distinguishable without colour. Each cell of a matrix also states its
number as text, and the description lists all numbers, so that colour is never the only information.

page/plots.html writes the SVG of panels, asdf.report.plots draws with matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from asdf.arrays import Floats
from asdf.text import clock, shorten

_DASHES = ("", "7 4", "2 3", "9 3 2 3")
_MARKS = (
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0Z",
    "M-4,-4H4V4H-4Z",
    "M0,-5L5,4H-5Z",
    "M0,-5.5L5.5,0L0,5.5L-5.5,0Z",
    "M0,5L5,-4H-5Z",
)
_COLOURS = 9
_TIME_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_MAX_TIMES = 8
_RIGHT_MARGIN = 14
_BOTTOM_MARGIN = 42
# Width of a digit on an axis, in pixels.
_DIGIT = 6.6


def tick_text(value: float) -> str:
    """Return the label of an axis value, with a minus sign, since a hyphen is easily missed."""
    return f"{value:g}".replace("-", "−")


@dataclass(frozen=True)
class Axis:
    """A range of values; `scale` maps values to positions, `text` maps one value to its label."""

    low: float
    high: float
    ticks: Sequence[float]
    label: str
    scale: Callable[[Any], Any] = np.asarray
    text: Callable[[float], str] = tick_text

    def positions(self, values: Any, start: float, end: float) -> Floats:
        """Return the positions of values on an axis from `start` to `end`, in pixels."""
        low, high = self.scale([self.low, self.high])
        # An axis with a single value has no span: everything lies at its start.
        shares = (self.scale(values) - low) / ((high - low) or 1)
        positions: Floats = start + shares * (end - start)
        return positions

    def hold(self, value: float) -> float:
        """Return a value, clipped to the range of the axis."""
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Line:
    """A line, or the marks of single points.

    Attributes:
        points: Points as [x, y, x, y, ...].
        index: Index of its style: colour, dashes and marks.
        name: Name by which a reader shows or hides it; '' for a line that is always visible.
        series: Key of its values in the page's data; '' if the pointer shows none.
        css: Additional CSS classes on the page.
        choice: Choice that it belongs to; None if it belongs to all.
        is_area: Whether it is filled and has no outline.
        is_linked: Whether its points are joined.
        is_hidden: Whether the page hides it until its name is ticked.
        mark_words: Tooltip of the mark of each point; empty without marks.
        chosen: Values of x whose marks are filled.
    """

    points: Sequence[float]
    index: int = 0
    name: str = ""
    series: str = ""
    css: str = ""
    choice: str | None = None
    is_area: bool = False
    is_linked: bool = True
    is_hidden: bool = False
    mark_words: Sequence[str] = ()
    chosen: Collection[float] = ()

    @property
    def colour(self) -> str:
        """The CSS class of its colour."""
        return f"c{self.index % _COLOURS}"

    @property
    def dashes(self) -> str:
        """The dash pattern of the line; '' for a solid one."""
        return "" if self.is_area or self.css == "noise" else _DASHES[self.index % len(_DASHES)]

    @property
    def mark(self) -> str:
        """The outline of its marks, around the origin."""
        return _MARKS[self.index % len(_MARKS)]


def bars(edges: Floats, heights: Floats, index: int, choice: str | None = None) -> list[Line]:
    """Return bars as an area and, above it, their outline, both from and to the axis."""
    corners = np.stack([np.repeat(edges, 2), [0, *np.repeat(heights, 2), 0]], axis=1)
    points = corners.ravel().tolist()
    return [Line(points, index, choice=choice, is_area=is_area) for is_area in (True, False)]


@dataclass(frozen=True)
class Mark:
    """A mark at a point in pixels, with `words` as its tooltip."""

    x: str
    y: str
    words: str
    is_chosen: bool


@dataclass(frozen=True)
class Upright:
    """A vertical line with its value, such as a threshold."""

    x: float
    label: str
    title: str


@dataclass(frozen=True)
class Panel:
    """A frame with two axes and its content.

    Attributes:
        width, height: Size in pixels, including the labels around the frame.
        css: Kind of the panel, its CSS class on the page.
        name: Name by which a reader shows or hides the panel; '' if it is always visible.
        choice: Choice that it belongs to; None if it belongs to all.
        note: Sentence in the middle of the panel.
    """

    x: Axis
    y: Axis
    width: int
    height: int
    title: str = ""
    css: str = ""
    description: str = ""
    lines: list[Line] = field(default_factory=list)
    uprights: list[Upright] = field(default_factory=list)
    name: str = ""
    choice: str | None = None
    is_hidden: bool = False
    note: str = ""

    @cached_property
    def left(self) -> int:
        """Left edge of the frame, with room for the labels of the vertical axis."""
        return round(32 + _DIGIT * max(map(len, map(self.y.text, self.y.ticks)), default=0))

    @cached_property
    def right(self) -> int:
        """Right edge of the frame, with room for the last label of the horizontal axis."""
        margin = _RIGHT_MARGIN
        if len(self.x.ticks):
            last = self.x.ticks[-1]
            # The label is centred below its tick.
            reach = _DIGIT * len(self.x.text(last)) / 2
            share = float(self.x.positions(last, 0, 1))
            beside = (1 - share) * (self.width - _RIGHT_MARGIN - self.left)
            margin = max(margin, math.ceil(reach - beside))
        return self.width - margin

    @property
    def top(self) -> int:
        """Upper edge of the frame."""
        return 26 if self.title else 10

    @property
    def bottom(self) -> int:
        """Lower edge of the frame."""
        return self.height - _BOTTOM_MARGIN

    def at_x(self, values: Any) -> Any:
        """Return the positions of values on the horizontal axis, in pixels."""
        return self.x.positions(values, self.left, self.right)

    def at_y(self, values: Any) -> Any:
        """Return the positions of values on the vertical axis, in pixels."""
        return self.y.positions(values, self.bottom, self.top)

    def path(self, line: Line) -> str:
        """Return a line as the commands of an SVG path; '' if its points are not joined."""
        # A line needs two points, which are four numbers.
        if len(line.points) < 4 or not line.is_linked:
            return ""
        xs = self.at_x(line.points[::2]).tolist()
        ys = self.at_y(line.points[1::2]).tolist()
        corners = "L".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        return f"M{corners}Z" if line.is_area else f"M{corners}"

    def marks(self, line: Line) -> list[Mark]:
        """Return the marks of a line; marks beyond the axes are moved to the nearest end."""
        marks = []
        for words, x, y in zip(line.mark_words, line.points[::2], line.points[1::2], strict=False):
            place = (f"{self.at_x(self.x.hold(x)):.1f}", f"{self.at_y(self.y.hold(y)):.1f}")
            marks.append(Mark(*place, words, x in line.chosen))
        return marks


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Return about `about` round numbers from `low` to `high`."""
    # An axis of zero length needs a tick, too.
    rough = (high - low) / about or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    # Accept a step that is too small only by rounding.
    wide_enough = rough * (1 - 1e-9)
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wide_enough)
    return _multiples(step, low, high)


def time_axis(end_s: float, label: str) -> Axis:
    """Return an axis of seconds from 0 on, whose ticks are minutes and seconds.

    The service's page has the same steps (`timeTicks` in its picture.js).
    """
    fitting = (step for step in _TIME_STEPS_S if end_s / step <= _MAX_TIMES)
    ticks = _multiples(next(fitting, end_s / _MAX_TIMES or 1.0), 0, end_s)
    return Axis(0, end_s, ticks, label, text=clock)


def _multiples(step: float, low: float, high: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # 3 * 0.1 is not 0.3 before it is rounded.
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


_LABEL = 16
_CELL = 34
_MARGIN = 130
# Above this share of the darkest colour, numbers are white.
_DARK = 0.6


@dataclass(frozen=True)
class Matrix:
    """A matrix of numbers with the text of each cell.

    Attributes:
        values: Values that the colours show, (rows, columns); NaN for an empty cell.
        texts: Text of each cell, row by row; '' for an empty cell.
        highest: Value of the darkest colour; the palest colour stands for 0.
        scale: Label of the colour scale.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Floats
    texts: Sequence[Sequence[str]]
    title: str = ""
    highest: float = 1.0
    scale: str = "EER (%)"
    row_heading: str = ""
    column_heading: str = ""

    def is_dark(self, row: int, column: int) -> bool:
        """Whether a cell is so dark that its number must be white."""
        return bool(self.values[row, column] > _DARK * self.highest)

    def svg(self, description: str, prefix: str = "") -> str:
        """Return the matrix as the content of an SVG file.

        Args:
            description: Description of the matrix in words, for readers who do not see it.
            prefix: Prefix of the element ids, which keeps them unique on a page.
        """
        width = _MARGIN + _CELL * len(self.columns) + 10
        height = _MARGIN + _CELL * len(self.rows) + 10
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" '
            f'aria-labelledby="{prefix}title {prefix}text" '
            'font-family="sans-serif" font-size="10">',
            f'<title id="{prefix}title">{escape(self.title)}</title>',
            f'<desc id="{prefix}text">{escape(description)}</desc>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]
        for row, name in enumerate(self.rows):
            label = escape(shorten(name, _LABEL))
            middle = _MARGIN + row * _CELL + _CELL / 2
            end = f'x="{_MARGIN - 6}" y="{middle + 3:g}" text-anchor="end"'
            turned = f'transform="translate({middle:g} {_MARGIN - 6}) rotate(-60)"'
            parts += [f"<text {end}>{label}</text>", f"<text {turned}>{label}</text>"]
            parts += [self._cell(row, column) for column in range(len(self.columns))]
        return "\n".join([*parts, "</svg>\n"])

    def _cell(self, row: int, column: int) -> str:
        left = _MARGIN + column * _CELL
        top = _MARGIN + row * _CELL
        share = float(np.nan_to_num(self.values[row, column])) / self.highest
        # Colours run from white, which also marks empty cells, to dark blue.
        colour = "#" + "".join(f"{round(255 - share * (255 - end)):02x}" for end in (8, 48, 107))
        cell = (
            f'<rect x="{left}" y="{top}" width="{_CELL}" height="{_CELL}" fill="{colour}" '
            'stroke="#cccccc"/>'
        )
        if not self.texts[row][column]:
            return cell
        text_colour = "#ffffff" if self.is_dark(row, column) else "#000000"
        return cell + (
            f'<text x="{left + _CELL / 2:g}" y="{top + _CELL / 2 + 3:g}" text-anchor="middle" '
            f'fill="{text_colour}">{escape(self.texts[row][column])}</text>'
        )
