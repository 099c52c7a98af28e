"""Words for the screen: names that cannot harm a terminal, texts and lists of a bounded length.

Invariant: what is written to a terminal holds no control character that came from a file. The name
of a recording, an attack or a setting is somebody else's text: with an escape sequence in it, it
could set the title of the terminal, hide a line or print text in another order than it is read by a
program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

AnyPath = str | os.PathLike[str]
"""A path as programs may hand it over."""

MESSAGE_LENGTH = 20_000
"""The most characters of one message on the screen or in a log."""

# Names beyond these bounds are not typing mistakes, and comparing them would take time for nothing.
_MAX_COMPARED_LENGTH = 200
_MAX_COMPARED = 1000
# Control characters but tab and newline, soft hyphen, marks that are not seen or change the
# direction of the text, line and paragraph separators, tags, and surrogates (bytes of a file name
# that are not UTF-8). The joiners U+200C and U+200D stay: Persian, Hindi and emoji are written with
# them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ONE_LINE = {ord("\t"): "\\t", ord("\n"): "\\n"}


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Return `text` with every control character, and what is not text, escaped: ESC as \x1b.

    Args:
        one_line: True to write newline and tab so too, for a name that is one field of a line.
    """
    text = _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    if one_line:
        return text.translate(_ONE_LINE)
    return text


def count_of(number: int, thing: str) -> str:
    """Return a number and what it counts.

    Examples:
        >>> count_of(1, "run"), count_of(2, "epoch"), count_of(1000, "minibatch")
        ('1 run', '2 epochs', '1,000 minibatches')
    """
    plural = "es" if thing.endswith(("s", "batch")) else "s"
    return f"{number:,} {thing}" + plural * (number != 1)


def p_value_text(p_value: float) -> str:
    """Return '= 0.012' or '< 0.001': no probability is zero."""
    return "< 0.001" if p_value < 0.0005 else f"= {p_value:.3f}"


def message(text: str) -> str:
    """Return the text of a message fit for a terminal and a log: `printable`, of a bounded length.

    The end is shown as well as the start: of a traceback it is the part that is needed.
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
    """Cut a text of more than `width` characters in the middle: both ends of a path are useful."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    start = width - 1 - end
    return f"{text[:start]}…{text[len(text) - end :]}"


def and_more(names: Sequence[str], shown: int, between: str = ", ") -> str:
    """Return the first names and the number of the others: 'a, b, c and 7 more'."""
    text = between.join(names[:shown])
    rest = len(names) - shown
    if rest > 0:
        text += f" and {rest:,} more"
    return text


def numbered(names: Sequence[str]) -> list[str]:
    """Return the names, each but the first of equal ones with its number: 'net', 'net #2'."""
    result: list[str] = []
    for name in names:
        other = name
        number = 1
        # Not a count of equal names: a system may itself be called 'net #2'.
        while other in result:
            number += 1
            other = f"{name} #{number}"
        result.append(other)
    return result


def quoted_and_more(names: Sequence[str], shown: int) -> str:
    """Return the first names in quotation marks, and '...' for others: "'a', 'b', ..."."""
    quoted = list(map(repr, names[:shown]))
    if len(names) > shown:
        quoted.append("...")
    return ", ".join(quoted)


def lines_and_more(lines: Sequence[str], shown: int, indent: str = "  ") -> str:
    r"""Return the first lines and the number of the others: '\n  a\n  b\n  ... and 7 more'."""
    text = ""
    for line in lines[:shown]:
        text += f"\n{indent}{line}"
    rest = len(lines) - shown
    if rest > 0:
        text += f"\n{indent}... and {rest:,} more"
    return text


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell.

    Args:
        right: Indices of columns of numbers, whose cells end at the same position.
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
    """Return the known name nearest to `name`, ignoring capitals; empty where none is near."""
    if len(name) > _MAX_COMPARED_LENGTH:
        return ""
    spelled = {}
    for candidate in islice(known, _MAX_COMPARED):
        spelled[candidate.lower()] = candidate
    matches = get_close_matches(name.lower(), spelled, n=1)
    if not matches:
        return ""
    return spelled[matches[0]]


def from_here(path: Path) -> str:
    """Return ", which is relative to FOLDER" for a path that is relative to the working folder."""
    return "" if path.is_absolute() else f", which is relative to {Path.cwd()}"


def is_address(name: str) -> bool:
    """Whether a text is an address of the web rather than a path."""
    return _ADDRESS.match(name) is not None


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return " Did you mean 'x'?" for the nearest known name, or ''.

    Args:
        prefix: Text that is written before the name.
    """
    near = closest(name, known)
    if not near:
        return ""
    return f" Did you mean '{prefix}{near}'?"


def csv_text(text: str) -> str:
    """Return a text as a cell of a CSV file that no spreadsheet takes for a formula.

    A text of two characters or more that begins with '=', '+', '-', '@', a tab or an end of line
    gets an apostrophe in front: spreadsheets would otherwise compute it, with whatever a file name
    or a label asks for. It is for cells of text; a number is written as it is, so that a score of
    -1.5 stays one.
    """
    # A '-' alone is what tables write for nothing.
    if len(text) > 1 and text[0] in "=+-@\t\r\n":
        return f"'{text}"
    return text


def read_number(text: str) -> float:
    """Read a number as files write it, in ASCII and without underscores; it may be infinite or NaN.

    Raises:
        ValueError: it is not a number. `1_0.5` is not: Python alone takes it for 10.5, so a slip of
            an editor would become another number.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{shorten(text)!r} is not a number")
    return float(text)
