"""The lines of a config file: each is blank, a comment, an assignment, or something else.

Invariant: a value may go on over several lines inside its brackets; whatever is wrong with it, the lines behind it
are read as if it were right, so that one mistake does not hide or make others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Collector, Complaint, Location, Mistake, SettingsError, shortened
from asdf.settings.tokens import ASSIGNMENT_LINE, find_end

TARGET = re.compile(r"[^\W\d]\w*(\.\w+)*")


@dataclass(frozen=True)
class Line:
    """One line, or the several of one value. `text` is the name that is assigned to, or the line as it is."""

    kind: Literal["blank", "comment", "assignment", "other"]
    number: int
    text: str = ""
    comment: str = ""
    value: Any = None
    value_text: str = ""
    broken: bool = False


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """The text of a config file, its line ends turned into newlines.

    Raises:
        SettingsError: there is no such file, it cannot be read, or it is not UTF-8.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise SettingsError(
            [Mistake(Location(str(path)), f"there is no such file; the {what} should be there")]
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(
            [Mistake(Location(str(path)), f"the {what} cannot be read: {reason}")]
        ) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        location = Location(str(path), raw.count(b"\n", 0, error.start) + 1)
        raise SettingsError(
            [
                Mistake(
                    location,
                    f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file in the encoding "
                    "UTF-8",
                )
            ]
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(text: str, file: str, found: Collector) -> Iterator[Line]:
    """The lines of a text; a value that goes on over several lines makes one. Broken values are noted."""
    start, number = 0, 1
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        raw = text[start:end]
        bare, _, comment = raw.partition("#")
        line = raw.strip()
        if not line:
            yield Line("blank", number)
        elif line.startswith("#"):
            yield Line("comment", number, comment=line.lstrip("#").removeprefix(" "))
        elif "=" not in bare or not TARGET.fullmatch(bare.partition("=")[0].strip()):
            yield Line("other", number, bare.strip(), comment.strip())
        else:
            target = bare.partition("=")[0].strip()
            value_line, end = _value_line(
                text, start + raw.index("=") + 1, target, Location(file, number), found
            )
            yield value_line
        number += text.count("\n", start, end) + 1
        start = end + 1


def _value_line(
    text: str, start: int, target: str, location: Location, found: Collector
) -> tuple[Line, int]:
    """The assignment whose value starts at `start`, and the end of its last line."""
    assert location.line is not None
    value_text = text[start : _line_end(text, start)].strip()
    try:
        end, comment = find_end(text, start)
        value_text = text[start:end].strip()
        line = Line(
            "assignment", location.line, target, comment, parse_literal(value_text), value_text
        )
        return line, _line_end(text, end)
    except Complaint as complaint:
        found.mistakes.append(complaint.at(location, f"{target} = {shortened(value_text)}"))
        line = Line("assignment", location.line, target, value_text=value_text, broken=True)
        return line, _recovery(text, start)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _recovery(text: str, start: int) -> int:
    """The end of the last line that may belong to the broken value at `start`.

    Where its brackets are closed that is where they are; else it is in front of the next blank line or assignment.
    """
    try:
        return _line_end(text, find_end(text, start)[0])
    except Complaint:
        end = _line_end(text, start)
        while end < len(text):
            following = text[end + 1 : _line_end(text, end + 1)]
            if not following.strip() or ASSIGNMENT_LINE.match(following):
                break
            end = _line_end(text, end + 1)
        return end
