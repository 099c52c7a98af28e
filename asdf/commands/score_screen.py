"""Scores as lines, shown above the progress bar if there is one.

Invariant: a pipe or a file gets fields separated by tabs; `score_terminal` makes the lines for
people.
"""

from __future__ import annotations

import sys
from typing import TextIO

from asdf.commands.score_pictures import clock, text_plot
from asdf.commands.score_result_files import Line
from asdf.commands.score_terminal import TerminalLines
from asdf.metrics.llr_intervals import INTERVAL_LEVEL
from asdf.metrics.verbal_scale import log10_llr
from asdf.scoring.document import Heading
from asdf.text import and_more, printable

# On standard error; the lines and tables contain all remarks.
_REMARKS_SHOWN = 20
_PARTS_SHOWN = 8


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

    def show(self, line: Line) -> None:
        """Show a recording: path, score, verdict with a threshold, remarks; or path and 'error'."""
        result = line.result
        if result.error:
            shown = f"{line.shown}\terror"
            self._write(self._terminal.describe(line, "") if self._terminal else shown)
            self.say(f"error: {result.error}")
            return
        if self._stream is None:
            return
        cells = [line.shown, f"{result.score:.4f}"]
        if self._heading.threshold is not None:
            cells.append(line.result.verdict or "")
        notes = [
            _describe_parts(line),
            _describe_lowest(line),
            _describe_spoofed(line),
            _describe_source(line),
            result.remark,
        ]
        text = "; ".join(note for note in notes if note)
        if self._terminal is not None:
            # Words are for people: programs find them in --csv and --json.
            worded = [_describe_strength(line), text]
            self._write(self._terminal.describe(line, "; ".join(filter(None, worded))))
        else:
            self._write("\t".join([*cells, text] if text else cells))
        if line.windows:
            self._write(text_plot(line.windows, self._heading.threshold))
        # On a terminal it is visible anyway.
        if result.remark and self._terminal is None:
            self._remarks += 1
            if self._remarks <= _REMARKS_SHOWN:
                self.say(f"{line.shown}: {result.remark}")

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


def _describe_strength(line: Line) -> str:
    """Return an LLR in words, with log10 and its interval; '' if it is not meaningful."""
    result = line.result
    if result.llr is None or not result.llr_words:
        return ""
    interval = ""
    if result.llr_interval is not None:
        low, high = result.llr_interval
        interval = f", LLR {low:.2f} to {high:.2f} at {100 * INTERVAL_LEVEL:.0f} %"
    return f"{result.llr_words} (log10 {log10_llr(result.llr):.2f}{interval})"


def _describe_source(line: Line) -> str:
    sources = line.result.sources
    if sources is None:
        return ""
    return f"{sources.column} {sources.best} ({sources.probabilities[sources.best]:.2f})"


def _describe_parts(line: Line) -> str:
    parts = line.result.parts
    if not parts:
        return ""
    spans = []
    for part in parts:
        span = f"{clock(part.start_s)}-{clock(part.end_s)}"
        spans.append(f"{span} (lowest {part.score:.4f})")
    noun = "part sounds" if len(parts) == 1 else "parts sound"
    text = f"{len(parts)} {noun} spoofed: {and_more(spans, _PARTS_SHOWN)}"
    searched = line.result.searched
    if searched is None or searched.false_alarms is None:
        return text
    return f"{text}; {searched.false_alarms.describe()}"


def _describe_lowest(line: Line) -> str:
    lowest = line.result.lowest
    if lowest is None:
        return ""
    span = f"{clock(lowest.start_s)}-{clock(lowest.end_s)}"
    return f"mean of {line.result.windows} windows, lowest {lowest.score:.4f} at {span}"


def _describe_spoofed(line: Line) -> str:
    if line.result.frames is None:
        return ""
    if not line.spoofed:
        return "no part marked"
    # In seconds, as in the files, because parts are short.
    parts = [f"{start_s:.2f}-{end_s:.2f}" for start_s, end_s in line.spoofed]
    return f"spoofed from to (s): {and_more(parts, _PARTS_SHOWN)}"
