"""Scores as lines, shown above the progress bar if there is one.

Invariant: a pipe or a file gets fields separated by tabs, so that programs always read the same.
`TerminalLines` makes the lines for people: verdict first, in colour, with aligned numbers. The name
of a recording comes last and is cut in its middle, so that no line is wider than the terminal,
which would break it anywhere.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from textwrap import wrap
from typing import TextIO

from asdf.commands.score_files import Row, clock, text_plot
from asdf.metrics.llr_intervals import INTERVAL_LEVEL
from asdf.metrics.verbal_scale import log10_llr
from asdf.scoring.document import Heading
from asdf.scoring.scored import BONA_FIDE, SPOOF
from asdf.text import and_more, printable, shorten

NOT_JUDGED = "not judged"
ERROR = "error"

_GREEN, _RED, _AMBER = "32", "31", "33"
_COLOURS = {BONA_FIDE: _GREEN, SPOOF: _RED}
_VERDICT_WIDTH = len(NOT_JUDGED)
# Width of '-1234.5678', which no network and no calibration exceeds.
_SCORE_WIDTH = 10
_BETWEEN = "  "
_MIN_NAME = 12

# On standard error; the lines and tables contain all remarks.
_REMARKS_SHOWN = 20
_PARTS_SHOWN = 8


class TerminalLines:
    """Formats lines of results, and counts the results for a last row."""

    def __init__(self, stream: TextIO, has_verdicts: bool) -> None:
        """`stream` is the terminal."""
        self._stream = stream
        self._has_verdicts = has_verdicts
        # By no-color.org, any value but an empty one turns colours off.
        self._in_colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._counts: Counter[str] = Counter()

    def describe(self, row: Row, notes: str) -> str:
        """Return the lines of a recording: verdict, score and name, followed by its notes."""
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
            colour = _AMBER if result.unlike else _COLOURS.get(verdict, _AMBER)
            shown = verdict.ljust(_VERDICT_WIDTH)
            if self._in_colour:
                shown = f"\x1b[{colour}m{shown}\x1b[0m"
            cells = [shown, " " * _SCORE_WIDTH if result.error else cells[0]]
            width += _VERDICT_WIDTH + len(_BETWEEN)
        columns = terminal_width(self._stream)
        name_width = max(_MIN_NAME, columns - width - len(_BETWEEN))
        cells.append(shorten(row.shown, name_width))
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
    """Shows lines as they arrive; errors and remarks also go to standard error."""

    def __init__(self, heading: Heading, stream: TextIO | None) -> None:
        """`stream` receives the lines of recordings; None: neither they nor remarks are shown."""
        self._heading = heading
        self._stream = stream
        self._remarks = 0
        self._terminal: TerminalLines | None = None
        if stream is not None and stream.isatty():
            self._terminal = TerminalLines(stream, heading.threshold is not None)

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
        text = "; ".join(_notes_of(row))
        if self._terminal is not None:
            # Words are for people: programs find them in --csv and --json.
            worded = [_describe_strength(row), text]
            self._write(self._terminal.describe(row, "; ".join(filter(None, worded))))
        else:
            self._write("\t".join([*cells, text] if text else cells))
        if row.windows:
            self._write(text_plot(row.windows, self._heading.threshold))
        # On a terminal it is visible anyway.
        if result.remark and self._terminal is None:
            self._remarks += 1
            if self._remarks <= _REMARKS_SHOWN:
                self.say(f"{row.shown}: {result.remark}")

    def end(self) -> None:
        """State how many remarks were not shown; most trials of a list may have one."""
        more = self._remarks - _REMARKS_SHOWN
        if more > 0:
            self.say(
                f"{more:,} more recordings have a remark, shown in their lines and in --csv and "
                "--json"
            )

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


def _describe_strength(row: Row) -> str:
    """Return an LLR in words, with log10 and its interval; '' if it is not meaningful."""
    result = row.result
    if result.llr is None or not result.llr_words:
        return ""
    interval = ""
    if result.llr_interval is not None:
        low, high = result.llr_interval
        interval = f", LLR {low:.2f} to {high:.2f} at {100 * INTERVAL_LEVEL:.0f} %"
    return f"{result.llr_words} (log10 {log10_llr(result.llr):.2f}{interval})"


def _notes_of(row: Row) -> list[str]:
    """Return parts, lowest window, marked parts, source and remark of a recording, in words."""
    result = row.result
    notes = []
    if result.parts:
        spans = []
        for part in result.parts:
            span = f"{clock(part.start_s)}-{clock(part.end_s)}"
            spans.append(f"{span} (lowest {part.score:.4f})")
        noun = "part sounds" if len(spans) == 1 else "parts sound"
        notes.append(f"{len(spans)} {noun} spoofed: {and_more(spans, _PARTS_SHOWN)}")
        if result.searched is not None and result.searched.false_alarms is not None:
            notes.append(result.searched.false_alarms.describe())
    lowest = result.lowest
    if lowest is not None:
        span = f"{clock(lowest.start_s)}-{clock(lowest.end_s)}"
        notes.append(f"mean of {result.windows} windows, lowest {lowest.score:.4f} at {span}")
    if result.frames is not None:
        # In seconds, as in the files, because parts are short.
        marked = [f"{start_s:.2f}-{end_s:.2f}" for start_s, end_s in row.spoofed]
        spans_s = and_more(marked, _PARTS_SHOWN)
        notes.append(f"spoofed from to (s): {spans_s}" if marked else "no part marked")
    if result.sources is not None:
        best = result.sources.best
        probability = result.sources.probabilities[best]
        notes.append(f"{result.sources.column} {best} ({probability:.2f})")
    return [*notes, result.remark] if result.remark else notes
