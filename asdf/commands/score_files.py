"""Files of `python -m asdf score`: CSV, JSON, RTTM of spoofed parts, and plots of scores over time.

Invariant: a number in a file is exactly the one that `Detector` gives, without loss when read back.
Recordings are written one at a time, so that a list may have any length. The lowest score is
visible in a plot, however short it was: a text column for several windows shows the lowest of them,
because readers look for a few seconds of spoof.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from asdf.arrays import Floats
from asdf.audio.reading import read_blocks
from asdf.commands.outputs import base_of_several
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import atomic_write, write_text
from asdf.scoring.columns import in_table, join_placed
from asdf.scoring.scored import Scored, WindowScore
from asdf.segments import Segment, Timed, write_rttm
from asdf.tables.panels import Axis, Line, Panel, nice_ticks
from asdf.tasks.localisation.frame_scores import FrameScores
from asdf.text import clock, csv_text, printable
from asdf.trials.trial_list import bare_name

if TYPE_CHECKING:
    from asdf.commands.score_options import ScoreOptions
    from asdf.scoring.detector import Detector
    from asdf.scoring.document import Heading

_COLUMNS = (
    "verdict",
    "label",
    "error",
    "seconds",
    "seconds_scored",
    "remark",
    "lowest",
    "lowest_start_s",
    "lowest_end_s",
    "precision",
)

_BLOCKS = " ▁▂▃▄▅▆▇█"
# The text: maximum numbers of characters of the plot and of one window, and number of lines.
_TEXT_COLUMNS = 64
_MAX_WINDOW_COLUMNS = 6
_TEXT_ROWS = 6
# The SVG: distances between time marks, and sizes in pixels.
_TIME_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MAX_TIME_STEPS = 8
_WIDTH = 800
_HEIGHT = 240
_FRAME_COLUMNS = 724
_MAX_MARKS = 100
# Maximum number of plots of --segments: more are not looked at, and each reads its recording again.
_PICTURES = 100


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
        self._kind = heading.kind
        self._precision = heading.precision
        names = ["path", "start_s", "end_s", heading.kind, *_COLUMNS]
        # Columns that do not apply to all tables are at the end.
        for column in in_table(heading.columns):
            names += column.cells
        self._rows = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        self._rows.writeheader()

    def add(self, row: Row) -> None:
        """Write the rows of a recording."""
        self._add(row, {})

    def _add(self, row: Row, times: Mapping[str, Any]) -> None:
        result = row.result
        # An empty cell for None, and numbers in the shortest exact form.
        cells: dict[str, Any] = {
            "path": result.name,
            **times,
            self._kind: result.score,
            "verdict": result.verdict,
            "label": row.label,
            "error": result.error,
            "seconds": result.seconds,
            "seconds_scored": result.seconds_scored,
            "remark": result.remark,
            "precision": self._precision,
        }
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
            self._rows.writerow({"path": cells["path"], **scored, "precision": self._precision})
        for each in row.below:
            # By a start, readers know rows that are not of a recording.
            self._add(each, {"start_s": 0.0, "end_s": each.result.seconds})

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
        known: dict[str, Any] = {}
        if row.sha256 is not None:
            known["sha256"] = row.sha256
        if row.label is not None:
            known["label"] = row.label
        if row.windows:
            known["windows"] = [window.entry() for window in row.windows]
        entry = join_placed([*row.result.placed(), (90, known)])
        self._file.write(self._between + indent(json.dumps(entry, indent=2), " " * 4))
        self._between = ",\n"

    def end(self, complete: bool) -> None:
        """Write the end of the file; `complete`: no recording is missing."""
        self._file.write(f'\n  ],\n  "complete": {json.dumps(complete)}\n}}\n')


def write_pictures(table: Path, heading: Heading, rows: Iterable[Row]) -> int:
    """Write an SVG of each recording that has windows, next to a table.

    A plot is named `<table> - <recording>.svg`, with a number if two would have the same name.

    Returns:
        Number of plots.
    """
    kind = "LLR" if heading.kind == "llr" else heading.kind
    names: set[str] = set()
    for row in rows:
        if row.windows:
            name = _picture_name(table.stem, row, names)
            picture = svg_plot(row.windows, row.result.name, kind, heading.threshold)
            write_text(table.parent / f"{name}.svg", picture)
    return len(names)


def _picture_name(output: str, row: Row, names: set[str]) -> str:
    """Return the name of a recording's plot without its suffix, and add it to `names`."""
    first = f"{output} - {Path(row.result.name).stem}"
    name = first
    number = 1
    # Recordings in two folders may have the same name, but need different plots.
    while name in names:
        number += 1
        name = f"{first} ({number})"
    names.add(name)
    return name


@dataclass(frozen=True)
class SegmentOutputs:
    """The outputs of --segments: RTTM, JSON with frame scores, plots.

    All have the same parts, those of frames that score below the threshold; `python -m asdf
    evaluate` reads the JSON.

    Attributes:
        base: Common path of the outputs, without suffix.
        threshold: Score below which frames are marked.
    """

    base: Path
    threshold: float

    @property
    def rttm(self) -> Path:
        # with_suffix would not do: a name may contain a dot, as in 'call.2'.
        return self.base.with_name(f"{self.base.name}.rttm")

    @property
    def json(self) -> Path:
        return self.base.with_name(f"{self.base.name}.json")

    def write(self, network: str, rows: Callable[[], Iterator[Row]]) -> None:
        """Write RTTM and JSON.

        Args:
            rows: Function that yields the rows of all recordings, from the first one at each call.
        """
        by_path = {}
        with atomic_write(self.json) as file:
            heading = json.dumps({"network": network, "threshold": self.threshold}, indent=1)
            file.write(heading.removesuffix("\n}") + ',\n "recordings": [')
            between = "\n"
            for row in rows():
                frames = row.result.frames
                if frames is None:
                    continue
                entry = {
                    "name": row.result.name,
                    "hop_s": frames.hop_s,
                    "duration_s": frames.seconds,
                    "spoofed": [list(segment) for segment in frames.marked],
                    "scores": frames.scores.tolist(),
                }
                file.write(between + json.dumps(entry))
                between = ",\n"
                by_path[row.result.name] = Timed(frames.marked, frames.seconds)
            file.write("\n ]\n}\n")
        # Bare names, as in corpora, or paths if two are equal.
        bare = {bare_name(path): timed for path, timed in by_path.items()}
        write_rttm(self.rttm, bare if len(bare) == len(by_path) else by_path)

    def write_pictures(self, rows: Iterable[Row]) -> int:
        """Write plots of the first recordings; return their number."""
        names: set[str] = set()
        for row in rows:
            frames = row.result.frames
            if frames is None or row.result.path is None or len(names) == _PICTURES:
                continue
            try:
                loudness = _loudness(row.result.path, frames.seconds)
            except (AsdfError, OSError):
                # The recording may be gone since: the scores are drawn without it.
                loudness = np.zeros(1)
            picture = svg_plot(
                frames_as_windows(frames),
                row.result.name,
                "frame score",
                self.threshold,
                loudness,
                frames.marked,
            )
            name = _picture_name(self.base.name, row, names)
            write_text(self.base.parent / f"{name}.svg", picture)
        return len(names)


def segment_outputs(args: ScoreOptions, detector: Detector) -> SegmentOutputs | None:
    """Return the outputs of --segments: files, or 'segments' in a folder.

    Raises:
        UsageError: they cannot be written there, another output has the same path, or the network
            gives no frame scores.
    """
    if args.segments is None:
        return None
    base = base_of_several("--segments", args.segments, "segments", (".rttm", ".json"))
    outputs = SegmentOutputs(base, args.segment_threshold)
    written = (outputs.rttm.resolve(), outputs.json.resolve())
    for other in (args.csv, args.json, args.scores):
        if other is not None and other.resolve() in written:
            raise UsageError(
                f"--segments would also write {other}, which is another output. Give one of them "
                "another name."
            )
    # Checked before anything is scored or written.
    detector.score_many([], frames=True)
    return outputs


def frames_as_windows(frames: FrameScores, most: int = _FRAME_COLUMNS) -> list[WindowScore]:
    """Return at most `most` consecutive windows, with the lowest score of each."""
    windows = []
    indices = np.arange(len(frames))
    for part in np.array_split(indices, min(most, len(frames))):
        start_s = float(part[0]) * frames.hop_s
        end_s = min(float(part[-1] + 1) * frames.hop_s, frames.seconds)
        windows.append(WindowScore(start_s, end_s, float(frames.scores[part].min())))
    return windows


def _loudness(path: Path, seconds: float) -> Floats:
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
        lines.append(Line(corners, css="spoofed", is_area=True))
    threshold_words = ""
    if threshold is not None:
        lines.append(Line([0, threshold, end_s, threshold], css="threshold"))
        threshold_words = f"threshold {threshold:.4g}"
    lines.append(Line(points))
    # More marks would merge into a thick line.
    if len(windows) <= _MAX_MARKS:
        lines.append(Line(points, is_linked=False, mark_words=lambda x, y: words[x]))
    # Of equal scores, the earliest is marked.
    lowest = min(zip(points[1::2], points[::2], strict=True))[::-1]
    lines.append(Line(lowest, css="lowest", mark_words=lambda x, y: words[x]))
    fitting = (step for step in _TIME_STEPS_S if end_s / step <= _MAX_TIME_STEPS)
    step_s = next(fitting, end_s / _MAX_TIME_STEPS)
    times = np.arange(0, end_s, step_s).tolist()
    x_axis = Axis(0, end_s, times, f"{kind} over time (minutes:seconds)", text=clock)
    y_axis = Axis(low, high, nice_ticks(low, high, 5), f"{kind} (higher: more bona fide)")
    shown = printable(title, one_line=True)
    panel = Panel(x_axis, y_axis, _WIDTH, _HEIGHT, shown, "picture", shown, lines)
    return picture_svg(panel, (f"lowest: {words[lowest[0]]}", threshold_words))


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
