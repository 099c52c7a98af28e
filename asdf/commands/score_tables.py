"""Renderers of scores: CSV, JSON, and lines on a screen. They loop over columns, and name none.

Invariant: a number in a file is exactly the one that `Detector` gives, without loss when read back.
Recordings are written one at a time, so that a list may have any length. A pipe or a file gets
fields separated by tabs, so that programs always read the same; a terminal gets the same lines for
people: aligned, with the verdict in colour, and no wider than the terminal, which would break them
anywhere.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent, wrap
from typing import IO, Any, TextIO

import numpy as np

from asdf.arrays import Floats
from asdf.audio.reading import read_blocks
from asdf.commands.outputs import AMBER, GREEN, GREY, RED, in_colour
from asdf.facts import SAMPLE_RATE
from asdf.scoring.columns import UNDECIDED, in_table, join_placed
from asdf.scoring.document import Heading
from asdf.scoring.scored import BONA_FIDE, SPOOF, Scored, WindowScore
from asdf.segments import Segment
from asdf.tables.panels import Axis, Line, Panel, nice_ticks, time_axis
from asdf.tasks.localisation.frame_scores import FrameScores
from asdf.text import clock, csv_text, printable, shorten

_COLUMNS = (
    *("verdict", "label", "error", "seconds", "seconds_scored", "remark", "lowest"),
    *("lowest_start_s", "lowest_end_s", "precision"),
)

NOT_JUDGED = "not judged"
ERROR = "error"
_COLOURS = {BONA_FIDE: GREEN, SPOOF: RED, UNDECIDED: GREY}
_VERDICT_WIDTH = len(NOT_JUDGED)
# Width of '-1234.5678', which no network and no calibration exceeds.
_SCORE_WIDTH = 10
_BETWEEN = "  "
_MIN_NAME = 12


@dataclass(frozen=True)
class Row:
    """All results of one recording; `windows` are empty if not requested.

    Attributes:
        sha256: Digest of the recording's file; None if not requested or not readable.
    """

    label: int | None
    result: Scored
    windows: Sequence[WindowScore] = ()
    sha256: str | None = None

    @property
    def shown(self) -> str:
        """Name of the recording, with what columns add to it."""
        result = self.result
        titles = [result.columns[key].title(value) for key, value in result.values.items()]
        return printable("".join([result.name, *titles]), one_line=True)

    @property
    def below(self) -> list[Row]:
        """Rows of parts of the recording that have lines of their own, such as channels."""
        rows = []
        for key, value in self.result.values.items():
            for fields in self.result.columns[key].rows(value, self.result.name):
                rows.append(Row(None, Scored(self.result.index, None, **fields)))
        return rows


class CsvTable:
    """A row per recording; below it those of its windows and channels, which alone have start_s.

    The score's column is named after its kind. Text in cells is not a formula, see `csv_text`.
    """

    def __init__(self, file: IO[str], heading: Heading) -> None:
        """Write the first row."""
        self._always = {"precision": heading.precision}
        self._kind = heading.kind
        names = ["path", "start_s", "end_s", heading.kind, *_COLUMNS]
        # Columns that do not apply to all tables are at the end.
        for column in in_table(heading.columns):
            names += column.cells
        self._rows = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        self._rows.writeheader()

    def add(self, row: Row, times: Mapping[str, Any] | None = None) -> None:
        """Write the rows of a recording, or of a part of it at `times`."""
        result = row.result
        # An empty cell for None, and numbers in the shortest exact form.
        cells: dict[str, Any] = {**self._always, **(times or {}), "path": result.name}
        cells |= {self._kind: result.score, "label": row.label, "error": result.error}
        for name in ("verdict", "seconds", "seconds_scored", "remark"):
            cells[name] = getattr(result, name)
        if result.lowest:
            cells["lowest"] = result.lowest.score
            cells["lowest_start_s"] = result.lowest.start_s
            cells["lowest_end_s"] = result.lowest.end_s
        for key, value in result.values.items():
            column = result.columns[key]
            cells |= zip(column.cells, column.row(value), strict=bool(column.cells))
        for name, cell in cells.items():
            if isinstance(cell, str):
                cells[name] = csv_text(cell)
        self._rows.writerow(cells)
        for window in row.windows:
            scored = {"start_s": window.start_s, "end_s": window.end_s, self._kind: window.score}
            self._rows.writerow({"path": cells["path"], **scored, **self._always})
        for each in row.below:
            # By a start, readers know rows that are not of a recording.
            self.add(each, {"start_s": 0.0, "end_s": each.result.seconds})

    def end(self, complete: bool) -> None:
        """Do nothing, because a CSV table cannot state what is missing."""


class JsonTable:
    """The heading's entries, `recordings`, and whether they are `complete`.

    Values that do not apply to a recording are null or omitted.
    """

    def __init__(self, file: IO[str], heading: Heading) -> None:
        """Write the heading."""
        self._file = file
        self._between = "\n"
        # The object is left open: entries are written as they arrive, in any number.
        opened = json.dumps(heading.entries(), indent=2).removesuffix("\n}")
        file.write(opened + ',\n  "recordings": [')

    def add(self, row: Row) -> None:
        """Write the entry of a recording."""
        windows = [window.entry() for window in row.windows]
        known = {"sha256": row.sha256, "label": row.label, "windows": windows or None}
        stated = {name: value for name, value in known.items() if value is not None}
        entry = join_placed([*row.result.placed(), (90, stated)])
        self._file.write(self._between + indent(json.dumps(entry, indent=2), " " * 4))
        self._between = ",\n"

    def end(self, complete: bool) -> None:
        """Write the end of the file; `complete`: no recording is missing."""
        self._file.write(f'\n  ],\n  "complete": {json.dumps(complete)}\n}}\n')


def terminal_width(stream: TextIO) -> int:
    """Return the number of columns of a terminal."""
    # The user's COLUMNS takes precedence over the size of the terminal, as in other programs.
    if "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    try:
        # A terminal without a size reports 0.
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


class Screen:
    """Shows lines as they arrive, above the progress bar; errors also go to standard error."""

    def __init__(self, heading: Heading, stream: TextIO | None, name_width: int = 0) -> None:
        """Show lines on a stream.

        Args:
            stream: Stream of the lines of recordings; None: neither they nor remarks are shown.
            name_width: Width of the longest name.
        """
        self._heading = heading
        self._has_verdicts = heading.threshold is not None
        self._stream = stream
        self._name_width = name_width
        self._is_terminal = stream is not None and stream.isatty()
        self._remarks = 0
        self._counts: Counter[str] = Counter()

    def show(self, row: Row) -> None:
        """Show a recording: path, score, verdict with a threshold, remarks; or path and 'error'."""
        result = row.result
        if self._stream is not None:
            notes = "" if result.error else "; ".join(self._notes_of(row))
            if self._is_terminal:
                self._write(self._aligned(row, notes))
            else:
                cells = [row.shown, ERROR if result.error else f"{result.score:.4f}"]
                if self._has_verdicts and not result.error:
                    cells.append(result.verdict or "")
                self._write("\t".join([*cells, notes] if notes else cells))
            if row.windows and not result.error:
                self._write(text_plot(row.windows, self._heading.threshold))
            self._remarks += bool(result.remark and not result.error)
        if result.error:
            self.say(f"error: {result.error}")
            return
        for each in row.below:
            self.show(each)

    def end(self) -> None:
        """State how many recordings have a remark in their lines, which a pipe hides."""
        if self._remarks and not self._is_terminal:
            self.say(f"remarks in the lines of recordings: {self._remarks:,}")

    def summarise(self) -> None:
        """Show the number of recordings and of each verdict, on a terminal, for two or more."""
        total = sum(self._counts.values())
        if total < 2:
            return
        failed = self._counts[ERROR]
        if self._has_verdicts:
            counts = {BONA_FIDE: 0, SPOOF: 0, **self._counts}
            parts = [f"{n} {'not scored' if of == ERROR else of}" for of, n in counts.items()]
        else:
            parts = [f"{total - failed} scored", *([f"{failed} not"] if failed else [])]
        self._write(f"{total} recordings: {', '.join(parts)}")

    def say(self, text: str) -> None:
        """Write a line to standard error."""
        from tqdm import tqdm

        # Printed around the progress bar, which a plain print would break.
        tqdm.write(printable(text), file=sys.stderr)

    def _write(self, text: str) -> None:
        from tqdm import tqdm

        assert self._stream is not None
        tqdm.write(text, file=self._stream)
        # Another program may read the lines as they arrive.
        self._stream.flush()

    def _aligned(self, row: Row, notes: str) -> str:
        """Return the lines of a recording on a terminal: name, score and verdict, then notes."""
        assert self._stream is not None
        result = row.result
        verdict, score = result.verdict or NOT_JUDGED, f"{result.score or 0:.4f}"
        if result.error:
            # The score of a failed recording is empty where its verdict says so already.
            verdict, score = ERROR, "" if self._has_verdicts else ERROR
        self._counts[verdict] += 1
        cells = [score.rjust(_SCORE_WIDTH)]
        width = _SCORE_WIDTH + len(_BETWEEN)
        if self._has_verdicts:
            colour = _COLOURS.get(verdict, AMBER)
            if result.is_doubted and verdict != UNDECIDED:
                colour = AMBER
            cells.append(in_colour(verdict.ljust(_VERDICT_WIDTH), colour, self._stream))
            width += _VERDICT_WIDTH + len(_BETWEEN)
        columns = terminal_width(self._stream)
        room = max(_MIN_NAME, columns - width)
        cells.insert(0, shorten(row.shown, room).ljust(min(room, self._name_width)))
        inset = _BETWEEN * 2
        below = wrap(notes, columns, initial_indent=inset, subsequent_indent=inset)
        return "\n".join([_BETWEEN.join(cells), *below])

    def _notes_of(self, row: Row) -> list[str]:
        """Return the words of columns, lowest window and remark of a recording."""
        result = row.result
        words: dict[bool, list[str]] = {True: [], False: []}
        for column in in_table(self._heading.columns):
            value = result.values.get(column.key)
            if value is not None:
                words[column.is_for_people].append(column.words(value))
        lowest = result.lowest
        mean = ""
        if lowest is not None:
            span = f"{clock(lowest.start_s)}-{clock(lowest.end_s)}"
            mean = f"mean of {result.windows} windows, lowest {lowest.compared:.4f} at {span}"
        for_people = words[True] if self._is_terminal else []
        return [text for text in (*for_people, *words[False], mean, result.remark) if text]


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
    shares = [(column.min() - low) / (high - low) for column in columns]
    # In eighths of a row, at least one, so that every window is visible.
    heights = [max(1, round(share * 8 * _TEXT_ROWS)) for share in shares]
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
    words = []
    for window in windows:
        middle_s = (window.start_s + window.end_s) / 2
        points += [middle_s, window.score]
        seconds = f"{clock(window.start_s)} to {clock(window.end_s)}"
        words.append(f"{window.score:.4g}, {seconds}")
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
        lines.append(Line(points, is_linked=False, mark_words=words))
    # Of equal scores, the earliest is marked.
    lowest = points[1::2].index(min(points[1::2]))
    at_lowest = points[2 * lowest : 2 * lowest + 2]
    lines.append(Line(at_lowest, css="lowest", mark_words=[words[lowest]]))
    x_axis = time_axis(end_s, f"{kind} over time (minutes:seconds)")
    y_axis = Axis(low, high, nice_ticks(low, high, 5), f"{kind} (higher: more bona fide)")
    shown = printable(title, one_line=True)
    panel = Panel(x_axis, y_axis, _WIDTH, _HEIGHT, shown, "picture", shown, lines)
    return picture_svg([panel], (f"lowest: {words[lowest]}", *threshold_words))


def _score_range(windows: Sequence[WindowScore], threshold: float | None) -> tuple[float, float]:
    """Return the lowest and the highest value to draw, which are distinct."""
    values = [*(window.score for window in windows), *([] if threshold is None else [threshold])]
    low, high = min(values), max(values)
    # A single score, or equal ones: the range must not be zero.
    return (low - 1, high + 1) if low == high else (low, high)
