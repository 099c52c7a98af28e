"""Text for the terminal: escaped control characters, bounded lengths, short lists.

Invariant: no control character from a file reaches a terminal. The name of a recording, an attack
or a setting is untrusted text: an escape sequence in it could set the terminal's title, hide a line
or display text in another order than a program reads it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

AnyPath = str | os.PathLike[str]
"""A path as programs may hand it over."""

MESSAGE_LENGTH = 20_000
"""The most characters of one message on the screen or in a log."""

PROGRAM = "asdf-antispoofing"
"""The installed program, besides `python -m asdf`."""

TYPED = "ASDF_PROGRAM"
"""Environment variable with the program that became another one, such as a recipe's run.py."""

_MODULE = "python -m asdf"
# Longer names, or more of them, are not typing mistakes and would take long to compare.
_MAX_COMPARED_LENGTH = 200
_MAX_COMPARED = 1000
# Control characters except tab and newline, soft hyphen, invisible and direction marks, line and
# paragraph separators, tags, and surrogates (bytes of a file name that are not UTF-8). The joiners
# U+200C and U+200D stay, since Persian, Hindi and emoji need them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ONE_LINE = {ord("\t"): "\\t", ord("\n"): "\\n"}


def program_name() -> str:
    """Return the program that the user called: `python -m asdf`, or the installed one."""
    if os.environ.get(TYPED) == PROGRAM or Path(sys.argv[0]).name == PROGRAM:
        return PROGRAM
    return _MODULE


def as_typed(text: str) -> str:
    """Return a text with its commands in the form in which this user calls them."""
    return text.replace(_MODULE, program_name())


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Return `text` with control and non-text characters escaped, such as ESC as \x1b.

    Args:
        one_line: Whether newline and tab are escaped as well, for a name in one field of a line.
    """
    text = _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    return text.translate(_ONE_LINE) if one_line else text


def count_of(number: int, thing: str) -> str:
    """Return a number and what it counts.

    Examples:
        >>> count_of(1, "run"), count_of(2, "epoch"), count_of(1000, "minibatch")
        ('1 run', '2 epochs', '1,000 minibatches')
    """
    plural = "es" if thing.endswith(("s", "batch")) else "s"
    return f"{number:,} {thing}" + plural * (number != 1)


def p_value_text(p_value: float) -> str:
    """Return '= 0.012' or '< 0.001', since no probability is zero."""
    return "< 0.001" if p_value < 0.0005 else f"= {p_value:.3f}"


def message(text: str) -> str:
    """Return the text of a message escaped by `printable` and limited in length.

    Both ends are shown, since the end of a traceback is the part that matters.
    """
    text = printable(text)
    if len(text) <= MESSAGE_LENGTH:
        return text
    end = MESSAGE_LENGTH // 4
    start = MESSAGE_LENGTH - end
    left_out = len(text) - start - end
    note = f"... {left_out:,} characters of this message are left out ..."
    return f"{text[:start]}\n{note}\n{text[-end:]}"


def shorten(text: str, width: int = 200) -> str:
    """Cut a text of more than `width` characters in the middle, which keeps both ends of a path."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    start = width - 1 - end
    return f"{text[:start]}…{text[len(text) - end :]}"


def and_more(names: Sequence[str], shown: int, between: str = ", ") -> str:
    """Return the first names and the number of the rest: 'a, b, c and 7 more'."""
    rest = len(names) - shown
    return between.join(names[:shown]) + (f" and {rest:,} more" if rest > 0 else "")


def numbered(names: Sequence[str]) -> list[str]:
    """Return the names, with a number for each repeated one: 'net', 'net #2'."""
    result: list[str] = []
    for name in names:
        other = name
        number = 1
        # Counting equal names is not enough, since a system may itself be called 'net #2'.
        while other in result:
            number += 1
            other = f"{name} #{number}"
        result.append(other)
    return result


def quoted_and_more(names: Sequence[str], shown: int) -> str:
    """Return the first names in quotation marks, with '...' for the rest: "'a', 'b', ..."."""
    quoted = list(map(repr, names[:shown]))
    if len(names) > shown:
        quoted.append("...")
    return ", ".join(quoted)


def lines_and_more(lines: Sequence[str], shown: int, indent: str = "  ") -> str:
    r"""Return the first lines and the number of the rest: '\n  a\n  b\n  ... and 7 more'."""
    text = "".join(f"\n{indent}{line}" for line in lines[:shown])
    rest = len(lines) - shown
    if rest > 0:
        text += f"\n{indent}... and {rest:,} more"
    return text


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell.

    Args:
        right: Indices of right-aligned columns, such as numbers.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for index, cell in enumerate(row):
            width = widths[index]
            cells.append(cell.rjust(width) if index in right else cell.ljust(width))
        lines.append("  ".join(cells).rstrip())
    return lines


def as_facts(title: str, rows: Mapping[str, str]) -> list[str]:
    """Return a title and, below it, names with their values."""
    width = max(map(len, rows))
    return [title, *(f"  {name:<{width}}  {value}" for name, value in rows.items())]


def closest(name: str, known: Iterable[str]) -> str:
    """Return the known name closest to `name`, ignoring case; '' if none is close."""
    if len(name) > _MAX_COMPARED_LENGTH:
        return ""
    spelled = {candidate.lower(): candidate for candidate in islice(known, _MAX_COMPARED)}
    matches = get_close_matches(name.lower(), spelled, n=1)
    return spelled[matches[0]] if matches else ""


def from_here(path: Path) -> str:
    """Return " in FOLDER", the working folder, for a path that is relative to it."""
    return "" if path.is_absolute() else f" in {Path.cwd()}"


def is_address(name: str) -> bool:
    """Whether a text is a web address rather than a path."""
    return _ADDRESS.match(name) is not None


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return " Did you mean 'x'?" for the nearest known name, or ''.

    Args:
        prefix: Text before the suggested name.
    """
    near = closest(name, known)
    return f" Did you mean '{prefix}{near}'?" if near else ""


def csv_text(text: str) -> str:
    """Return a text as a cell of a CSV file that no spreadsheet reads as a formula.

    A text of two or more characters that begins with '=', '+', '-', '@', a tab or an end of line
    gets a leading apostrophe. Without it, a spreadsheet would evaluate a file name or label as a
    formula. Numbers are written without this function, so that -1.5 stays a number.
    """
    # Tables write a lone '-' for a missing value.
    return f"'{text}" if len(text) > 1 and text[0] in "=+-@\t\r\n" else text


def read_number(text: str) -> float:
    """Read a number in ASCII without underscores, as files write it; it may be infinite or NaN.

    Raises:
        ValueError: it is not a number. `1_0.5` is refused: only Python reads it as 10.5, so it is
            most likely a typing mistake.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{shorten(text)!r} is not a number")
    return float(text)


def read_numbers(texts: Sequence[str]) -> list[float]:
    """Read many numbers as `read_number` reads one, in half the time.

    Raises:
        ValueError: one of them is not a number.
    """
    text = "".join(texts)
    if "_" in text or not text.isascii():
        return list(map(read_number, texts))
    return list(map(float, texts))


def clock(time_s: float) -> str:
    """Write a time as minutes and seconds, with a decimal below 10 s."""
    # Clips of a few seconds have windows of fractions of a second.
    if time_s < 10:
        return f"0:{time_s:04.1f}".removesuffix(".0")
    return f"{round(time_s) // 60}:{round(time_s) % 60:02d}"
