"""SVG without a script: a frame with two axes, and lines that differ by colour, dashes and marks.

The page's script draws the same with `axes.js` and `looks.js`, in the width that there is; this is
what stands on the page until it does, and where no script is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from asdf.report.markup import Content, Html, markup, tag

_DASHES = (None, "7 4", "2 3", "9 3 2 3")
_MARKS = (
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0Z",
    "M-4,-4H4V4H-4Z",
    "M0,-5L5,4H-5Z",
    "M0,-5.5L5.5,0L0,5.5L-5.5,0Z",
    "M0,5L5,-4H-5Z",
)
_COLOURS = 6
_RIGHT, _BOTTOM = 14, 42


@dataclass(frozen=True)
class Axis:
    """The values that an axis shows; `by` maps a value to where it lies."""

    low: float
    high: float
    ticks: Sequence[float]
    label: str
    by: Callable[[float], float] = float


class Frame:
    """A frame of `width` and `height` with its grid: `inside` is cut off at it, `above` is not."""

    def __init__(self, x: Axis, y: Axis, width: int, height: int, title: str = "") -> None:
        self._x = x
        self._y = y
        self._title = title
        self._width = width
        self._height = height
        widest = max(len(f"{tick:g}") for tick in y.ticks)
        self._left = round(32 + 6.6 * widest)
        self._right = width - _RIGHT
        self._top = 26 if title else 10
        self._low = height - _BOTTOM
        self.inside: list[Html] = []
        self.above: list[Html] = []

    def x(self, value: float) -> float:
        """Where a value of the horizontal axis lies."""
        return self._place(self._x, value, self._left, self._right)

    def y(self, value: float) -> float:
        """Where a value of the upright axis lies."""
        return self._place(self._y, value, self._low, self._top)

    def path(self, points: Sequence[float]) -> str:
        """[x, y, x, y, ...] as a path."""
        pairs = zip(points[::2], points[1::2], strict=True)
        return "M" + "L".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in pairs)

    def svg(self, description: str, class_: str) -> Html:
        """The whole as an element."""
        parts = [
            *self._x_grid(),
            *self._y_grid(),
            *self._window(),
            *self.above,
            *self._labels(),
        ]
        view = f"0 0 {self._width} {self._height}"
        return _svg(*parts, view=view, role="img", aria_label=description, class_=class_)

    def _x_grid(self) -> Iterator[Html]:
        """The upright lines of the grid, each with its value below the frame."""
        for tick in self._x.ticks:
            at = f"{self.x(tick):.1f}"
            yield tag("path", class_="grid", d=f"M{at},{self._top}V{self._low}")
            yield _text(f"{tick:g}", at, self._low + 16, "middle", "soft")

    def _y_grid(self) -> Iterator[Html]:
        """The level lines of the grid, each with its value to the left of the frame."""
        for tick in self._y.ticks:
            at = self.y(tick)
            yield tag("path", class_="grid", d=f"M{self._left},{at:.1f}H{self._right}")
            yield _text(f"{tick:g}", self._left - 6, f"{at + 4:.1f}", "end", "soft")

    def _window(self) -> Iterator[Html]:
        """What lies inside the frame, and its border."""
        sizes = {
            "x": self._left,
            "y": self._top,
            "width": self._right - self._left,
            "height": self._low - self._top,
        }
        # An element of its own cuts off what lies beyond it, without an id.
        window = " ".join(map(str, sizes.values()))
        yield _svg(*self.inside, view=window, **sizes)
        yield tag("rect", class_="frame", **sizes)

    def _labels(self) -> Iterator[Html]:
        """What the axes are, and the title."""
        middle = (self._left + self._right) / 2
        yield _text(self._x.label, middle, self._height - 6, "middle")
        height = (self._top + self._low) / 2
        turned = f"translate(12,{height:g})rotate(-90)"
        yield tag("text", self._y.label, transform=turned, text_anchor="middle")
        if self._title:
            yield _text(self._title, self._left, 15, None, "title")

    def _place(self, axis: Axis, value: float, start: float, end: float) -> float:
        low, high = axis.by(axis.low), axis.by(axis.high)
        share = (axis.by(value) - low) / ((high - low) or 1)
        return start + share * (end - start)


def line(index: int, path: str, extra: str = "") -> Html:
    """A path in the look of the line number `index`."""
    dashes = _DASHES[index % len(_DASHES)]
    class_ = f"line c{index % _COLOURS} {extra}".rstrip()
    return tag("path", d=path, class_=class_, stroke_dasharray=dashes)


def marker(index: int, x: float, y: float, words: str, extra: str = "") -> Html:
    """A mark in the look of the line number `index`."""
    class_ = f"marker c{index % _COLOURS} {extra}".rstrip()
    place = f"translate({x:.1f},{y:.1f})"
    return tag("path", tag("title", words), d=_MARKS[index % 5], transform=place, class_=class_)


def legend(entries: Sequence[tuple[int, str]]) -> Html:
    """(index, name) of lines."""
    labels = []
    for index, name in entries:
        sample = markup(line(index, "M0,7H36"), marker(index, 18, 7, ""))
        labels.append(tag("span", _svg(sample, view="0 0 36 14", aria_hidden="true"), " ", name))
    return tag("p", *labels, class_="legend")


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """About so many round numbers from `low` to `high`."""
    rough = (high - low) / about or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


def _svg(*parts: Content, view: str, **attributes: Content) -> Html:
    # The name of this attribute has a capital letter.
    drawn = tag("svg", *parts, viewbox=view, **attributes)
    return Html(drawn.replace("viewbox=", "viewBox=", 1))


def _text(text: str, x: Content, y: Content, anchor: str | None, class_: str | None = None) -> Html:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=class_)
