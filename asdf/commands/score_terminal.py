"""Scores on a terminal: verdict first, in colour, with aligned numbers.

Invariant: output to a pipe or a file is never formatted here, so that programs always read the
same. The name of a recording comes last and is cut in its middle, so that no line is wider than the
terminal, which would break it anywhere.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from textwrap import wrap
from typing import TextIO

from asdf.commands.score_result_files import Line
from asdf.scoring.scored import BONA_FIDE, SPOOF
from asdf.text import shorten

NOT_JUDGED = "not judged"
ERROR = "error"

_GREEN, _RED, _AMBER = "32", "31", "33"
_COLOURS = {BONA_FIDE: _GREEN, SPOOF: _RED}
_VERDICT_WIDTH = len(NOT_JUDGED)
# Width of '-1234.5678', which no network and no calibration exceeds.
_SCORE_WIDTH = 10
_BETWEEN = "  "
_MIN_NAME = 12


class TerminalLines:
    """Formats lines of results, and counts the results for a last line."""

    def __init__(self, stream: TextIO, has_verdicts: bool) -> None:
        """`stream` is the terminal."""
        self._stream = stream
        self._has_verdicts = has_verdicts
        # By no-color.org, any value but an empty one turns colours off.
        self._in_colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._counts: Counter[str] = Counter()

    def describe(self, line: Line, notes: str) -> str:
        """Return the lines of a recording: verdict, score and name, followed by its notes."""
        result = line.result
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
        cells.append(shorten(line.shown, name_width))
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
