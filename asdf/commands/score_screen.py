"""Scores as lines, shown above the progress bar if there is one.

Invariant: a pipe or a file gets fields separated by tabs, so that programs always read the same.
`TerminalLines` makes the lines for people, in the same order: aligned, with the verdict in colour.
The name of a recording is cut in its middle, so that no line is wider than the terminal, which
would break it anywhere.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from textwrap import wrap
from typing import TextIO

from asdf.commands.outputs import AMBER, GREEN, GREY, RED, in_colour
from asdf.commands.score_files import Row, text_plot
from asdf.scoring.columns import UNDECIDED, in_table
from asdf.scoring.document import Heading
from asdf.scoring.scored import BONA_FIDE, SPOOF
from asdf.text import clock, printable, shorten

NOT_JUDGED = "not judged"
ERROR = "error"

_COLOURS = {BONA_FIDE: GREEN, SPOOF: RED, UNDECIDED: GREY}
_VERDICT_WIDTH = len(NOT_JUDGED)
# Width of '-1234.5678', which no network and no calibration exceeds.
_SCORE_WIDTH = 10
_BETWEEN = "  "
_MIN_NAME = 12


class TerminalLines:
    """Formats lines of results, and counts the results for a last row."""

    def __init__(self, stream: TextIO, has_verdicts: bool, name_width: int) -> None:
        """`stream` is the terminal; `name_width` is that of the longest name."""
        self._stream = stream
        self._has_verdicts = has_verdicts
        self._name_width = name_width
        self._counts: Counter[str] = Counter()

    def describe(self, row: Row, notes: str) -> str:
        """Return the lines of a recording: name, score and verdict, followed by its notes."""
        result = row.result
        verdict = result.verdict or NOT_JUDGED
        score = ERROR
        if result.error:
            verdict = ERROR
        else:
            score = f"{result.score:.4f}"
        self._counts[verdict] += 1
        cells = [score.rjust(_SCORE_WIDTH)]
        width = _SCORE_WIDTH
        if self._has_verdicts:
            # The score of a failed recording is empty: its verdict says so already.
            colour = _COLOURS.get(verdict, AMBER)
            if result.is_doubted and verdict != UNDECIDED:
                colour = AMBER
            shown = in_colour(verdict.ljust(_VERDICT_WIDTH), colour, self._stream)
            cells = [" " * _SCORE_WIDTH if result.error else cells[0], shown]
            width += _VERDICT_WIDTH + len(_BETWEEN)
        columns = terminal_width(self._stream)
        room = max(_MIN_NAME, columns - width - len(_BETWEEN))
        cells.insert(0, shorten(row.shown, room).ljust(min(room, self._name_width)))
        indent = _BETWEEN * 2
        below = wrap(notes, columns, initial_indent=indent, subsequent_indent=indent)
        return "\n".join([_BETWEEN.join(cells), *below])

    def summary(self) -> str:
        """Return the numbers of recordings and of each verdict; '' for fewer than two."""
        total = sum(self._counts.values())
        failed = self._counts[ERROR]
        if total < 2:
            return ""
        if not self._has_verdicts:
            return f"{total}: {total - failed} scored" + (f", {failed} not" if failed else "")
        counts = {BONA_FIDE: 0, SPOOF: 0, **self._counts}
        names = {ERROR: "not scored"}
        parts = [f"{count} {names.get(verdict, verdict)}" for verdict, count in counts.items()]
        return f"{total}: {', '.join(parts)}"


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
    """Shows lines as they arrive; errors also go to standard error."""

    def __init__(self, heading: Heading, stream: TextIO | None, name_width: int = 0) -> None:
        """`stream` receives the lines of recordings; None: neither they nor remarks are shown."""
        self._heading = heading
        self._stream = stream
        self._remarks = 0
        self._terminal: TerminalLines | None = None
        if stream is not None and stream.isatty():
            self._terminal = TerminalLines(stream, heading.threshold is not None, name_width)

    def show(self, row: Row) -> None:
        """Show a recording: path, score, verdict with a threshold, remarks; or path and 'error'."""
        result = row.result
        if result.error:
            shown = f"{row.shown}\terror"
            self._write(self._terminal.describe(row, "") if self._terminal else shown)
            self.say(f"error: {result.error}")
            return
        if self._stream is None:
            return
        cells = [row.shown, f"{result.score:.4f}"]
        if self._heading.threshold is not None:
            cells.append(row.result.verdict or "")
        text = "; ".join(self._notes_of(row))
        if self._terminal is not None:
            self._write(self._terminal.describe(row, text))
        else:
            self._write("\t".join([*cells, text] if text else cells))
        if row.windows:
            self._write(text_plot(row.windows, self._heading.threshold))
        # On a terminal it is visible anyway.
        if result.remark and self._terminal is None:
            self._remarks += 1
        for each in row.below:
            self.show(each)

    def end(self) -> None:
        """State how many recordings have a remark in their lines, which a pipe hides."""
        if self._remarks:
            self.say(f"remarks in the lines of recordings: {self._remarks:,}")

    def summarise(self) -> None:
        """Show the number of recordings and of each verdict, on a terminal."""
        summary = self._terminal.summary() if self._terminal is not None else ""
        if summary:
            self._write(summary)

    def say(self, text: str) -> None:
        """Write a line to standard error."""
        from tqdm import tqdm

        # Printed around the progress bar, which a plain print would break.
        tqdm.write(printable(text), file=sys.stderr)

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        from tqdm import tqdm

        tqdm.write(text, file=self._stream)
        # Another program may read the lines as they arrive.
        self._stream.flush()

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
        for_people = words[True] if self._terminal is not None else []
        return [text for text in (*for_people, *words[False], mean, result.remark) if text]
