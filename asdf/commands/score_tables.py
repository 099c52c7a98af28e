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
from textwrap import indent, wrap
from typing import IO, Any, TextIO

from asdf.commands.outputs import AMBER, GREEN, GREY, RED, in_colour
from asdf.commands.score_plots import text_plot
from asdf.scoring.columns import UNDECIDED, in_table, join_placed
from asdf.scoring.document import Heading
from asdf.scoring.scored import BONA_FIDE, SPOOF, Scored, WindowScore
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
            self._write(self._aligned(row, notes) if self._is_terminal else self._line(row, notes))
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
            names = {ERROR: "not scored"}
            parts = [f"{count} {names.get(verdict, verdict)}" for verdict, count in counts.items()]
        else:
            parts = [f"{total - failed} scored", *([f"{failed} not"] if failed else [])]
        self._write(f"{total}: {', '.join(parts)}")

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

    def _line(self, row: Row, notes: str) -> str:
        """Return the fields of a recording, separated by tabs."""
        if row.result.error:
            return f"{row.shown}\t{ERROR}"
        cells = [row.shown, f"{row.result.score:.4f}"]
        if self._has_verdicts:
            cells.append(row.result.verdict or "")
        return "\t".join([*cells, notes] if notes else cells)

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
