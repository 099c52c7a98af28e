"""Plots of scores over time, as text and as SVG.

Invariant: the lowest score is visible in a plot, however short it was: a text column for several
windows shows the lowest of them, because readers look for a few seconds of spoof.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asdf.arrays import Floats
from asdf.audio.reading import read_blocks
from asdf.facts import SAMPLE_RATE
from asdf.scoring.scored import WindowScore
from asdf.segments import Segment
from asdf.tables.panels import Axis, Line, Panel, nice_ticks, time_axis
from asdf.tasks.localisation.frame_scores import FrameScores
from asdf.text import clock, printable

_BLOCKS = " ▁▂▃▄▅▆▇█"
# The text: maximum numbers of characters of the plot and of one window, and number of lines.
_TEXT_COLUMNS = 64
_MAX_WINDOW_COLUMNS = 6
_TEXT_ROWS = 6
# The SVG: sizes in pixels.
_WIDTH = 800
_HEIGHT = 240
_FRAME_COLUMNS = 724
_MAX_MARKS = 100


def frames_as_windows(frames: FrameScores, most: int = _FRAME_COLUMNS) -> list[WindowScore]:
    """Return at most `most` consecutive windows, with the lowest score of each."""
    windows = []
    indices = np.arange(len(frames))
    for part in np.array_split(indices, min(most, len(frames))):
        start_s = float(part[0]) * frames.hop_s
        end_s = min(float(part[-1] + 1) * frames.hop_s, frames.seconds)
        windows.append(WindowScore(start_s, end_s, float(frames.scores[part].min())))
    return windows


def loudness_of(path: Path, seconds: float) -> Floats:
    """Return the maximum sample of each of the columns of a plot, normalised to 1."""
    # A recording may have fewer samples than the plot has columns.
    per_column = max(1, round(seconds * SAMPLE_RATE / _FRAME_COLUMNS))
    # Read part by part, so that memory holds one column for recordings of any length.
    largest = [float(np.abs(block).max(initial=0.0)) for block in read_blocks(path, per_column)]
    loudness: Floats = np.array(largest or [0.0])
    # The offset avoids a division by zero for silence.
    loudness /= loudness.max() + 1e-12
    return loudness


def text_plot(windows: Sequence[WindowScore], threshold: float | None = None) -> str:
    """Draw the windows' scores as columns of blocks; the threshold is a dotted row."""
    low, high = _score_range(windows, threshold)
    scores = [window.score for window in windows]
    # Divided into nearly equal numbers of windows; the lowest of each is drawn.
    columns = np.array_split(scores, min(_TEXT_COLUMNS, len(windows)))
    columns_per_window = min(_MAX_WINDOW_COLUMNS, _TEXT_COLUMNS // len(columns))
    heights = []
    for column in columns:
        height = round((column.min() - low) / (high - low) * 8 * _TEXT_ROWS)
        # In eighths of a row, at least one, so that every window is visible.
        heights.append(max(1, height))
    dotted_row = -1
    if threshold is not None:
        dotted_row = min(_TEXT_ROWS - 1, int((threshold - low) / (high - low) * _TEXT_ROWS))
    labels = {_TEXT_ROWS - 1: f"{high:.2f}", 0: f"{low:.2f}"}
    lines = []
    for row in reversed(range(_TEXT_ROWS)):
        cells = ""
        for height in heights:
            filled_eighths = min(8, max(0, height - 8 * row))
            cells += _BLOCKS[filled_eighths] * columns_per_window
        if row == dotted_row:
            cells = cells.replace(" ", "·")
        lines.append(f"  {labels.get(row, ''):>9} | {cells}".rstrip())
    end = clock(windows[-1].end_s)
    width = len(columns) * columns_per_window
    # The label ends at the last column; 4 is the width of '0:00'.
    end_column = max(width - 4, len(end) + 1)
    lines.append(f"  {'':>9}   0:00{end:>{end_column}}")
    return "\n".join(lines)


def svg_plot(
    windows: Sequence[WindowScore],
    title: str,
    kind: str,
    threshold: float | None = None,
    loudness: Floats | None = None,
    spoofed: Sequence[Segment] = (),
) -> str:
    """Draw the windows' scores as the content of an SVG file.

    Each score is drawn at the middle of its window, the threshold is dashed, and the lowest score
    is marked; their values are below the axes, where they hide nothing.

    Args:
        kind: Kind of the scores, for the axis: 'score' or 'LLR'.
        loudness: Maximum sample of each of equal parts of the recording, (columns,), 0 to 1, which
            is drawn behind the scores; None: not drawn.
        spoofed: Parts that are marked behind the scores.
    """
    from asdf.report import picture_svg

    low, high = _score_range(windows, threshold)
    end_s = windows[-1].end_s
    points = []
    words = {}
    for window in windows:
        middle_s = (window.start_s + window.end_s) / 2
        points += [middle_s, window.score]
        seconds = f"{clock(window.start_s)} to {clock(window.end_s)}"
        words[middle_s] = f"{window.score:.4g}, {seconds}"
    lines = []
    if loudness is not None:
        # The waveform's outline around the middle.
        columns = len(loudness)
        times_s = end_s * (np.arange(columns) + 0.5) / columns
        heights = (high - low) / 2 * loudness
        upper = np.stack([times_s, (low + high) / 2 + heights], axis=1)
        lower = np.stack([times_s, (low + high) / 2 - heights], axis=1)
        outline = np.concatenate([upper, lower[::-1]]).ravel().tolist()
        lines.append(Line(outline, css="sound", is_area=True))
    for start_s, stop_s in spoofed:
        corners = [start_s, low, stop_s, low, stop_s, high, start_s, high]
        lines.append(Line(corners, css="part", is_area=True))
    threshold_words = []
    if threshold is not None:
        lines.append(Line([0, threshold, end_s, threshold], css="threshold"))
        threshold_words = [f"threshold {threshold:.4g}"]
    lines.append(Line(points))
    # More marks would merge into a thick line.
    if len(windows) <= _MAX_MARKS:
        lines.append(Line(points, is_linked=False, mark_words=lambda x, y: words[x]))
    # Of equal scores, the earliest is marked.
    lowest = min(zip(points[1::2], points[::2], strict=True))[::-1]
    lines.append(Line(lowest, css="lowest", mark_words=lambda x, y: words[x]))
    x_axis = time_axis(end_s, f"{kind} over time (minutes:seconds)")
    y_axis = Axis(low, high, nice_ticks(low, high, 5), f"{kind} (higher: more bona fide)")
    shown = printable(title, one_line=True)
    panel = Panel(x_axis, y_axis, _WIDTH, _HEIGHT, shown, "picture", shown, lines)
    return picture_svg([panel], (f"lowest: {words[lowest[0]]}", *threshold_words))


def _score_range(windows: Sequence[WindowScore], threshold: float | None) -> tuple[float, float]:
    """Return the lowest and the highest value to draw, which are distinct."""
    values = [window.score for window in windows]
    if threshold is not None:
        values.append(threshold)
    low = min(values)
    high = max(values)
    # A single score, or equal ones: the range must not be zero.
    if low == high:
        return low - 1, high + 1
    return low, high
