"""The lines of a config file: each is blank, a comment, an assignment, or something else.

Invariant: a value may go on over several lines inside its brackets; whatever is wrong with it, the
lines after it are read as if it were right, so that one mistake does not hide or make others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Collector, Complaint, Location, Mistake, SettingsError, shortened
from asdf.settings.tokens import ASSIGNMENT_LINE, find_end
from asdf.text import AnyPath

TARGET = re.compile(r"[^\W\d]\w*(\.\w+)*")


@dataclass(frozen=True)
class Line:
    """One line, or the several of one value; `text` is the assigned name, or the line as it is."""

    kind: Literal["blank", "comment", "assignment", "other"]
    number: int
    text: str = ""
    comment: str = ""
    value: Any = None
    value_text: str = ""
    broken: bool = False


def read_text(path: AnyPath, what: str) -> str:
    """Return the text of a config file, its line ends turned into newlines.

    Raises:
        SettingsError: there is no such file, it cannot be read, or it is not UTF-8.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise _unreadable(path, f"there is no such file; the {what} should be there") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _unreadable(path, f"the {what} cannot be read: {reason}") from None
    try:
        # With or without the mark that editors on Windows write in front.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file in the encoding UTF-8"
        raise _unreadable(path, problem, line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(path: AnyPath, problem: str, line: int | None = None) -> SettingsError:
    return SettingsError([Mistake(Location(str(path), line), problem)])


def read_lines(text: str, file: str, collector: Collector) -> Iterator[Line]:
    """Yield the lines of a text; a value over several lines makes one. Broken values are noted."""
    start = 0
    number = 1
    while start < len(text):
        end = _line_end(text, start)
        raw = text[start:end]
        bare, _, comment = raw.partition("#")
        target, equals, _ = bare.partition("=")
        stripped = raw.strip()
        if not stripped:
            yield Line("blank", number)
        elif stripped.startswith("#"):
            yield Line("comment", number, comment=stripped.lstrip("#").removeprefix(" "))
        elif not equals or not TARGET.fullmatch(target.strip()):
            yield Line("other", number, bare.strip(), comment.strip())
        else:
            # From the whole line, not from `bare`: a '#' inside a string begins no comment.
            value_start = start + raw.index("=") + 1
            line, end = _read_value(
                text, value_start, target.strip(), Location(file, number), collector
            )
            yield line
        number += text.count("\n", start, end) + 1
        start = end + 1


def _read_value(
    text: str, start: int, target: str, location: Location, collector: Collector
) -> tuple[Line, int]:
    """Return the assignment whose value starts at `start`, and the end of its last line."""
    assert location.line is not None
    # Shown in the message of a value whose end cannot be found.
    value_text = text[start : _line_end(text, start)].strip()
    try:
        end, comment = find_end(text, start)
        value_text = text[start:end].strip()
        value = parse_literal(value_text)
    except Complaint as complaint:
        written = f"{target} = {shortened(value_text)}"
        collector.mistakes.append(complaint.at(location, written))
        line = Line("assignment", location.line, target, value_text=value_text, broken=True)
        return line, _end_of_broken(text, start)
    line = Line("assignment", location.line, target, comment, value, value_text)
    return line, _line_end(text, end)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _end_of_broken(text: str, start: int) -> int:
    """Return the end of the last line that may belong to the broken value at `start`.

    That is where its brackets are closed; else before the next blank line or assignment.
    """
    try:
        value_end, _ = find_end(text, start)
        return _line_end(text, value_end)
    except Complaint:
        pass
    end = _line_end(text, start)
    while end < len(text):
        next_end = _line_end(text, end + 1)
        following = text[end + 1 : next_end]
        if not following.strip() or ASSIGNMENT_LINE.match(following):
            break
        end = next_end
    return end
