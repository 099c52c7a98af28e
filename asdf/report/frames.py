"""Plots as plain data: a frame with two axes, and lines that differ by colour, dashes and marks.

page/plots.html turns them into SVG. The page's script draws the same with `axes.js` and `looks.js`
in the width that the page has; this is what stands on the page until it does, and where no script
is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# As in looks.js, in the same order: no line changes its look when the script redraws it.
_DASHES = ("", "7 4", "2 3", "9 3 2 3")
_MARKS = (
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0Z",
    "M-4,-4H4V4H-4Z",
    "M0,-5L5,4H-5Z",
    "M0,-5.5L5.5,0L0,5.5L-5.5,0Z",
    "M0,5L5,-4H-5Z",
)
_COLOURS = 9
_RIGHT_MARGIN = 14
_BOTTOM_MARGIN = 42


@dataclass(frozen=True)
class Path:
    """A line or an area: `d` in SVG's commands, with its class and its dashes."""

    d: str
    css: str
    dashes: str = ""


@dataclass(frozen=True)
class Mark:
    """A mark around a point; `words` are shown where the pointer rests on it."""

    d: str
    x: str
    y: str
    css: str
    words: str


@dataclass(frozen=True)
class Label:
    """A text at a point; `anchor` says which of its ends stands there."""

    text: str
    x: str
    y: str
    anchor: str = ""
    css: str = ""


@dataclass(frozen=True)
class GridLine:
    """A line of the grid with its value."""

    d: str
    label: Label


@dataclass(frozen=True)
class Area:
    """The inside of a frame, in pixels."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """From top to bottom."""
        return self.bottom - self.top


@dataclass(frozen=True)
class Plot:
    """A whole plot: `inside` is cut off at the frame, `marks` and `labels` are not."""

    css: str
    description: str
    width: int
    height: int
    area: Area
    grid: list[GridLine]
    inside: list[Path]
    marks: list[Mark]
    labels: list[Label]
    x_label: Label
    y_label: Label
    title: Label | None


@dataclass(frozen=True)
class LegendEntry:
    """A line, with its mark, and its name."""

    name: str
    line: Path
    mark: Mark


@dataclass(frozen=True)
class Axis:
    """The values that an axis shows; `scale` maps a value to its position, `text` to its name."""

    low: float
    high: float
    ticks: Sequence[float]
    label: str
    scale: Callable[[float], float] = float
    text: Callable[[float], str] = "{:g}".format

    def position(self, value: float, start: float, end: float) -> float:
        """Return where a value lies on an axis from `start` to `end`, in pixels."""
        low = self.scale(self.low)
        span = self.scale(self.high) - low
        # An axis of a single value has no span: everything lies at its start.
        share = (self.scale(value) - low) / (span or 1)
        return start + share * (end - start)


class Frame:
    """A frame of `width` and `height` with a grid, to be filled with lines and marks."""

    def __init__(self, x: Axis, y: Axis, width: int, height: int, title: str = "") -> None:
        self._x = x
        self._y = y
        self._title = title
        self._width = width
        self._height = height
        # The values of the upright axis stand left of it: 6.6 pixels a digit, as in axes.js.
        longest = max(map(len, map(y.text, y.ticks)))
        self._area = Area(
            left=round(32 + 6.6 * longest),
            top=26 if title else 10,
            right=width - _RIGHT_MARGIN,
            bottom=height - _BOTTOM_MARGIN,
        )
        self.inside: list[Path] = []
        self.marks: list[Mark] = []
        self.labels: list[Label] = []

    def x(self, value: float) -> float:
        """Return where a value of the horizontal axis lies."""
        return self._x.position(value, self._area.left, self._area.right)

    def y(self, value: float) -> float:
        """Return where a value of the upright axis lies."""
        return self._y.position(value, self._area.bottom, self._area.top)

    def path(self, points: Sequence[float]) -> str:
        """Return [x, y, x, y, ...] as the commands of a path."""
        corners = []
        for x, y in zip(points[::2], points[1::2], strict=True):
            corners.append(f"{self.x(x):.1f},{self.y(y):.1f}")
        return "M" + "L".join(corners)

    def plot(self, description: str, css: str) -> Plot:
        """Return the frame with what it was filled with."""
        area = self._area
        middle = (area.left + area.right) / 2
        centre = (area.top + area.bottom) / 2
        title = Label(self._title, str(area.left), "15", css="title") if self._title else None
        return Plot(
            css=css,
            description=description,
            width=self._width,
            height=self._height,
            area=area,
            grid=self._grid(),
            inside=self.inside,
            marks=self.marks,
            labels=self.labels,
            x_label=Label(self._x.label, str(middle), str(self._height - 6), "middle"),
            y_label=Label(self._y.label, "12", f"{centre:g}", "middle"),
            title=title,
        )

    def _grid(self) -> list[GridLine]:
        """Return the grid: values stand below its upright lines and left of its level lines."""
        area = self._area
        lines = []
        for tick in self._x.ticks:
            x = f"{self.x(tick):.1f}"
            label = Label(self._x.text(tick), x, str(area.bottom + 16), "middle", "soft")
            lines.append(GridLine(f"M{x},{area.top}V{area.bottom}", label))
        for tick in self._y.ticks:
            y = self.y(tick)
            label = Label(self._y.text(tick), str(area.left - 6), f"{y + 4:.1f}", "end", "soft")
            lines.append(GridLine(f"M{area.left},{y:.1f}H{area.right}", label))
        return lines


def line(index: int, d: str) -> Path:
    """Return a path in the look of the line number `index`."""
    return Path(d, f"line c{index % _COLOURS}", _DASHES[index % len(_DASHES)])


def marker(index: int, x: float, y: float, words: str, extra: str = "") -> Mark:
    """Return a mark in the look of the line number `index`; `extra` is one more class."""
    css = f"marker c{index % _COLOURS} {extra}".rstrip()
    return Mark(_MARKS[index % len(_MARKS)], f"{x:.1f}", f"{y:.1f}", css, words)


def legend_entry(index: int, name: str) -> LegendEntry:
    """Return the entry of the line number `index` in a legend."""
    return LegendEntry(name, line(index, "M0,7H36"), marker(index, 18, 7, ""))


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Return about `about` round numbers from `low` to `high`."""
    # An axis of no length has a tick too.
    rough = (high - low) / about or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    # A step that is too small by rounding alone is wide enough.
    wide_enough = rough * (1 - 1e-9)
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wide_enough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]
