"""Scores over time as a picture: of text for a terminal, of SVG for everything else.

Invariant: the lowest score shows, however short it was: a column of the text that stands for several windows shows
the least of them, for a few seconds of spoof are what one looks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from asdf.scoring.scored import WindowScore
from asdf.text import printable

_BLOCKS = " ▁▂▃▄▅▆▇█"
_COLUMNS, _WIDEST, _ROWS = 64, 6, 6
_TIMES_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 800, 240, 60, 16, 30, 40
_RED = "#b32"


def text_plot(windows: Sequence[WindowScore], threshold: float | None = None) -> str:
    """The windows' scores as columns of blocks, with the range at the left; the threshold is a dotted row."""
    low, high = _range(windows, threshold)
    parts = np.array_split([window.score for window in windows], min(_COLUMNS, len(windows)))
    heights = [max(1, round((part.min() - low) / (high - low) * 8 * _ROWS)) for part in parts]
    wide = min(_WIDEST, _COLUMNS // len(parts))
    dotted = (
        -1 if threshold is None else min(_ROWS - 1, int((threshold - low) / (high - low) * _ROWS))
    )
    rows = []
    for row in reversed(range(_ROWS)):
        cells = "".join(_BLOCKS[min(8, max(0, height - 8 * row))] * wide for height in heights)
        label = f"{high:.2f}" if row == _ROWS - 1 else f"{low:.2f}" if row == 0 else ""
        rows.append(
            f"  {label:>9} | {cells.replace(' ', '·') if row == dotted else cells}".rstrip()
        )
    end = clock(windows[-1].end_s)
    return "\n".join([*rows, f"  {'':>9}   0:00{end:>{max(len(parts) * wide - 4, len(end) + 1)}}"])


def svg_plot(
    windows: Sequence[WindowScore], title: str, kind: str, threshold: float | None = None
) -> str:
    """The same as an SVG file's content: each window's score at its middle, the threshold dashed, the lowest marked.

    Args:
        kind: what the scores are, for the axis: 'score' or 'LLR'.
    """
    low, high = _range(windows, threshold)
    end_s = windows[-1].end_s

    def x(time_s: float) -> float:
        return _LEFT + time_s / end_s * (_WIDTH - _LEFT - _RIGHT)

    def y(score: float) -> float:
        return _TOP + (high - score) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_text(_LEFT, 18, title, "start")]
    for score in _ticks(low, high):
        parts.append(_line(x(0), y(score), x(end_s), y(score), "#ddd"))
        parts.append(_text(_LEFT - 6, y(score) + 4, f"{score:g}", "end"))
    for time_s in np.arange(
        0, end_s, next((step for step in _TIMES_S if end_s / step <= 8), end_s / 8)
    ):
        parts.append(_text(x(time_s), _HEIGHT - _BOTTOM + 16, clock(time_s), "middle"))
    parts.append(
        _text(
            (_LEFT + _WIDTH - _RIGHT) / 2,
            _HEIGHT - 6,
            f"{kind} over time (minutes:seconds)",
            "middle",
        )
    )
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(
        f'<text transform="translate(14,{middle:.1f})rotate(-90)" text-anchor="middle">'
        f"{escape(kind)} (higher: more bona fide)</text>"
    )
    if threshold is not None:
        parts.append(_line(x(0), y(threshold), x(end_s), y(threshold), _RED, "6 4"))
        label = f"threshold {threshold:.4g}"
        parts.append(_text(x(end_s), y(threshold) - 4, label, "end", _RED))
    points = [(x((window.start_s + window.end_s) / 2), y(window.score)) for window in windows]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="#236" stroke-width="1.5"/>')
    if len(points) <= 100:
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="#236"/>' for a, b in points]
    lowest = min(range(len(windows)), key=lambda index: windows[index].score)
    at, depth = points[lowest]
    label = f"lowest: {windows[lowest].score:.4g} at {clock(windows[lowest].start_s)}"
    anchor, shift = ("end", -8) if at > _WIDTH / 2 else ("start", 8)
    parts.append(f'<circle cx="{at:.1f}" cy="{depth:.1f}" r="5" fill="none" stroke="{_RED}"/>')
    parts.append(_text(at + shift, depth - 4, label, anchor, _RED))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _range(windows: Sequence[WindowScore], threshold: float | None) -> tuple[float, float]:
    values = [window.score for window in windows] + ([] if threshold is None else [threshold])
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1, high + 1)


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers from `low` to `high`."""
    step = 10 ** np.floor(np.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    return [
        float(round(number * step, 10))
        for number in range(int(np.ceil(low / step)), int(high // step) + 1)
    ]


def clock(time_s: float) -> str:
    """Minutes and seconds, with a decimal where there are few of them."""
    if time_s < 10:
        return f"0:{time_s:04.1f}".removesuffix(".0")
    return f"{round(time_s) // 60}:{round(time_s) % 60:02d}"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'
    )


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#000") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    # White around the letters, where they lie on a line.
    place += ' stroke="#fff" stroke-width="4" paint-order="stroke"'
    return f"<text {place}>{escape(printable(text, one_line=True))}</text>"
