"""Scores over time as a picture: of text for a terminal, of SVG for everything else.

Invariant: the lowest score shows, however short it was. A column of the text that stands for
several windows shows the lowest of them, since a few seconds of spoof are what the reader looks
for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from asdf.scoring.scored import WindowScore
from asdf.segments import Segment
from asdf.text import printable

_BLOCKS = " ▁▂▃▄▅▆▇█"
# The text: characters of the whole plot, of one window at most, and lines.
_COLUMNS = 64
_MAX_WINDOW_COLUMNS = 6
_ROWS = 6
# The picture: distances between time marks, and sizes in pixels.
_TIME_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MAX_TIME_STEPS = 8
_WIDTH = 800
_HEIGHT = 262
_LEFT = 60
_RIGHT = 16
_TOP = 30
_BOTTOM = 62
# The baseline of the key, below the axes.
_KEY_Y = _HEIGHT - 8
_MAX_DOTS = 100
_RED = "#b32"
_BLUE = "#236"


def text_plot(windows: Sequence[WindowScore], threshold: float | None = None) -> str:
    """Draw the windows' scores as columns of blocks; the threshold is a dotted row."""
    low, high = _score_range(windows, threshold)
    scores = [window.score for window in windows]
    # Of nearly equal numbers of windows; the lowest of each is drawn.
    columns = np.array_split(scores, min(_COLUMNS, len(windows)))
    columns_per_window = min(_MAX_WINDOW_COLUMNS, _COLUMNS // len(columns))
    heights = []
    for column in columns:
        height = round((column.min() - low) / (high - low) * 8 * _ROWS)
        # In eighths of a row; at least one, so that every window shows.
        heights.append(max(1, height))
    dotted_row = -1
    if threshold is not None:
        dotted_row = min(_ROWS - 1, int((threshold - low) / (high - low) * _ROWS))
    labels = {_ROWS - 1: f"{high:.2f}", 0: f"{low:.2f}"}
    lines = []
    for row in reversed(range(_ROWS)):
        cells = _draw_row(row, heights, columns_per_window)
        if row == dotted_row:
            cells = cells.replace(" ", "·")
        lines.append(f"  {labels.get(row, ''):>9} | {cells}".rstrip())
    end = clock(windows[-1].end_s)
    width = len(columns) * columns_per_window
    # The label ends below the last column; 4 is the width of '0:00'.
    end_column = max(width - 4, len(end) + 1)
    lines.append(f"  {'':>9}   0:00{end:>{end_column}}")
    return "\n".join(lines)


def _draw_row(row: int, heights: Sequence[int], columns_per_window: int) -> str:
    """Return a row of the text, the lowest one being 0; `heights` are in eighths of a row."""
    cells = ""
    for height in heights:
        filled_eighths = min(8, max(0, height - 8 * row))
        cells += _BLOCKS[filled_eighths] * columns_per_window
    return cells


@dataclass(frozen=True, eq=False)
class Backdrop:
    """What is drawn behind the scores.

    Attributes:
        loudness: (columns,) the largest sample of each of equal parts of the recording, 0 to 1.
        spoofed: the parts that are marked.
    """

    loudness: npt.NDArray[np.floating]
    spoofed: Sequence[Segment]


def svg_plot(
    windows: Sequence[WindowScore],
    title: str,
    kind: str,
    threshold: float | None = None,
    backdrop: Backdrop | None = None,
) -> str:
    """Draw the windows' scores as the content of an SVG file.

    Each score is drawn at the middle of its window, the threshold dashed, the lowest score marked;
    their values stand below the axes, where they cover nothing.

    Args:
        kind: Kind of the scores, for the axis: 'score' or 'LLR'.
    """
    low, high = _score_range(windows, threshold)
    axes = _Axes(low, high, windows[-1].end_s)
    parts = [
        _text(_LEFT, 18, title, "start"),
        *_draw_backdrop(axes, backdrop),
        *_draw_axes(axes, kind),
        *_draw_threshold(axes, threshold),
        *_draw_curve(axes, windows),
        *_draw_lowest(axes, windows),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


@dataclass(frozen=True)
class _Axes:
    """From scores and seconds to pixels."""

    low: float
    high: float
    end_s: float

    def x(self, time_s: float) -> float:
        return _LEFT + time_s / self.end_s * (_WIDTH - _LEFT - _RIGHT)

    def y(self, score: float) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        return _TOP + (self.high - score) / (self.high - self.low) * height

    def point(self, window: WindowScore) -> tuple[float, float]:
        """Return x and y of a window's score, at the middle of the window."""
        return self.x((window.start_s + window.end_s) / 2), self.y(window.score)


def _draw_axes(axes: _Axes, kind: str) -> Iterator[str]:
    for score in _round_values(axes.low, axes.high):
        y = axes.y(score)
        yield _line(axes.x(0), y, axes.x(axes.end_s), y, "#ddd")
        yield _text(_LEFT - 6, y + 4, f"{score:g}", "end")
    fitting = (step for step in _TIME_STEPS_S if axes.end_s / step <= _MAX_TIME_STEPS)
    step_s = next(fitting, axes.end_s / _MAX_TIME_STEPS)
    for time_s in np.arange(0, axes.end_s, step_s):
        yield _text(axes.x(time_s), _HEIGHT - _BOTTOM + 16, clock(time_s), "middle")
    middle_x = (_LEFT + _WIDTH - _RIGHT) / 2
    yield _text(middle_x, _HEIGHT - _BOTTOM + 34, f"{kind} over time (minutes:seconds)", "middle")
    middle_y = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield (
        f'<text transform="translate(14,{middle_y:.1f})rotate(-90)" text-anchor="middle">'
        f"{escape(kind)} (higher: more bona fide)</text>"
    )


def _draw_backdrop(axes: _Axes, backdrop: Backdrop | None) -> Iterator[str]:
    """Draw the waveform's outline in grey, and spoofed parts in red over all of the height."""
    if backdrop is None:
        return
    middle = _TOP + (_HEIGHT - _TOP - _BOTTOM) / 2
    half = (_HEIGHT - _TOP - _BOTTOM) / 2
    columns = len(backdrop.loudness)
    xs = [axes.x(axes.end_s * (column + 0.5) / columns) for column in range(columns)]
    heights = [half * float(value) for value in backdrop.loudness]
    upper = [f"{x:.1f},{middle - height:.1f}" for x, height in zip(xs, heights, strict=True)]
    lower = [f"{x:.1f},{middle + height:.1f}" for x, height in zip(xs, heights, strict=True)]
    yield f'<polygon points="{" ".join([*upper, *reversed(lower)])}" fill="#e4e4e4"/>'
    for start_s, end_s in backdrop.spoofed:
        left = axes.x(start_s)
        width = axes.x(end_s) - left
        yield (
            f'<rect x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{2 * half:.0f}" '
            f'fill="{_RED}" fill-opacity="0.2"/>'
        )


def _draw_threshold(axes: _Axes, threshold: float | None) -> Iterator[str]:
    """Draw the threshold, with its value in the key below the axes."""
    if threshold is None:
        return
    y = axes.y(threshold)
    yield _line(axes.x(0), y, axes.x(axes.end_s), y, _RED, "6 4")
    end = _WIDTH - _RIGHT
    label = f"threshold {threshold:.4g}"
    yield _text(end, _KEY_Y, label, "end", _RED)
    start = end - 7 * len(label)
    yield _line(start - 34, _KEY_Y - 4, start - 8, _KEY_Y - 4, _RED, "6 4")


def _draw_curve(axes: _Axes, windows: Sequence[WindowScore]) -> Iterator[str]:
    points = [axes.point(window) for window in windows]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{_BLUE}" stroke-width="1.5"/>'
    # More dots than these would run into a thick line.
    if len(points) <= _MAX_DOTS:
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{_BLUE}"/>'


def _draw_lowest(axes: _Axes, windows: Sequence[WindowScore]) -> Iterator[str]:
    """Mark the lowest score, and write its value and its seconds into the key below the axes."""
    lowest = min(windows, key=lambda window: window.score)
    x, y = axes.point(lowest)
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" stroke="{_RED}"/>'
    # A label next to the mark would cover the curve where the reader looks.
    yield f'<circle cx="{_LEFT + 5}" cy="{_KEY_Y - 4}" r="5" fill="none" stroke="{_RED}"/>'
    seconds = f"{clock(lowest.start_s)} to {clock(lowest.end_s)}"
    yield _text(_LEFT + 16, _KEY_Y, f"lowest: {lowest.score:.4g}, {seconds}", "start", _RED)


def _score_range(windows: Sequence[WindowScore], threshold: float | None) -> tuple[float, float]:
    """Return the lowest and the highest value to draw, which differ."""
    values = [window.score for window in windows]
    if threshold is not None:
        values.append(threshold)
    low = min(values)
    high = max(values)
    # A single score, or equal ones: a range of zero cannot be divided by.
    if low == high:
        return low - 1, high + 1
    return low, high


def _round_values(low: float, high: float) -> list[float]:
    """Return a few round numbers from `low` to `high`."""
    step = 10 ** np.floor(np.log10((high - low) / 4))
    # 1, 2 or 5 times a power of ten, as one would label an axis by hand.
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    first = int(np.ceil(low / step))
    last = int(high // step)
    return [float(round(number * step, 10)) for number in range(first, last + 1)]


def clock(time_s: float) -> str:
    """Write a time as minutes and seconds, with a decimal below 10 s."""
    # Clips of a few seconds have windows of parts of a second.
    if time_s < 10:
        return f"0:{time_s:04.1f}".removesuffix(".0")
    return f"{round(time_s) // 60}:{round(time_s) % 60:02d}"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'
    )


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#000") -> str:
    attributes = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {attributes}>{escape(printable(text, one_line=True))}</text>"
