"""The text of init_config.py and run_configs.py, parsed into assignments and named blocks.

Invariant: every line of a file is classified exactly once (blank, comment, assignment, first line
of a block) or reported as a mistake; no line is skipped or added to the wrong block. A blank line
ends a block. A value may span several lines inside its brackets. After a broken value, reading
continues as if it were correct, so that one mistake neither hides nor causes others. Values are
read as literals here; whether they fit their settings is checked later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from asdf.settings.catalogue import name_today
from asdf.settings.literals import ASSIGNMENT_LINE, find_end, parse_literal
from asdf.settings.mistakes import Collector, Complaint, Location, Mistake, SettingsError, shortened
from asdf.text import AnyPath

TARGET = re.compile(r"[^\W\d]\w*(\.\w+)*")


@dataclass(frozen=True)
class Assignment:
    """One `section.name = value`; `text` is the value as written, `broken` if not a literal."""

    target: str
    value: Any
    text: str
    location: Location
    comment: str = ""
    broken: bool = False


@dataclass(frozen=True)
class Line:
    """A line without its comment, or the several lines of one value."""

    kind: Literal["blank", "comment", "assignment", "other"]
    number: int
    text: str = ""
    comment: str = ""
    assignment: Assignment | None = None


def read_text(path: AnyPath, what: str) -> str:
    """Return the text of a config file with line ends converted to newlines.

    Raises:
        SettingsError: the file does not exist, cannot be read, or is not UTF-8.
    """
    try:
        # As bytes, since the message on a wrong encoding names the byte and its line.
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise _unreadable(path, f"there is no such file; the {what} should be there") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise _unreadable(path, f"the {what} cannot be read: {reason}") from None
    try:
        # With or without the byte order mark that Windows editors write.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise _unreadable(path, problem, line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(path: AnyPath, problem: str, line: int | None = None) -> SettingsError:
    return SettingsError([Mistake(Location(str(path), line), problem)])


def read_lines(text: str, file: str, collector: Collector) -> Iterator[Line]:
    """Yield the lines of a text, each multi-line value as one; report broken values."""
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
            # Search the whole line, not `bare`, since a '#' inside a string begins no comment.
            value_start = start + raw.index("=") + 1
            location = Location(file, number)
            name = name_today(target.strip(), str(location))
            assignment, end = _read_value(text, value_start, name, location, collector)
            yield Line("assignment", number, assignment=assignment)
        number += text.count("\n", start, end) + 1
        start = end + 1


def _read_value(
    text: str, start: int, target: str, location: Location, collector: Collector
) -> tuple[Assignment, int]:
    """Return the assignment whose value starts at `start`, and the end of its last line."""
    # Shown in the message if the end of the value cannot be found.
    value_text = text[start : _line_end(text, start)].strip()
    try:
        end, comment = find_end(text, start)
        value_text = text[start:end].strip()
        value = parse_literal(value_text)
    except Complaint as complaint:
        written = f"{target} = {shortened(value_text)}"
        collector.mistakes.append(complaint.at(location, written))
        broken = Assignment(target, None, value_text, location, broken=True)
        return broken, _end_of_broken(text, start)
    return Assignment(target, value, value_text, location, comment), _line_end(text, end)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _end_of_broken(text: str, start: int) -> int:
    """Return the end of the last line that may belong to the broken value at `start`.

    The value ends where its brackets close, or before the next blank line or assignment.
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


HEADER = re.compile(r"[\w.-]+(\s*<\s*[\w.-]+)*")
NAMES = "letters, digits, '-', '_' and '.'"


@dataclass
class Block:
    """One config in run_configs.py.

    Attributes:
        parents: Names of the configs that it inherits from, nearest first.
        assignments: Settings of its own by target, in the order of the file.
        comments: Comments on the config: those above and behind its name, or else those between its
            name and the first setting. All other comments belong to the next setting.
    """

    name: str
    parents: tuple[str, ...]
    location: Location
    assignments: dict[str, Assignment] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)

    @property
    def header(self) -> str:
        """The first line of the block, in canonical form."""
        return " < ".join((self.name, *self.parents))


def parse_assignments(text: str, file: str) -> tuple[list[Assignment], list[Mistake]]:
    """Return the assignments in the text of an init_config, and its mistakes."""
    collector = Collector()
    assignments: dict[str, Assignment] = {}
    for line in read_lines(text, file, collector):
        if line.assignment is not None:
            _append(assignments, line.assignment, collector)
        elif line.kind == "other":
            collector.add(Location(file, line.number), _no_assignment(line))
    return list(assignments.values()), collector.mistakes


def parse_blocks(
    text: str, file: str, earlier: Mapping[str, Block] = MappingProxyType({})
) -> tuple[dict[str, Block], list[Mistake]]:
    """Return the blocks in the text of a run_configs by name, in order, and its mistakes.

    Args:
        earlier: Blocks of other files, which come first in what is returned.
    """
    reader = _BlockReader(file, earlier)
    for line in read_lines(text, file, reader.collector):
        reader.take(line)
    return reader.blocks, reader.collector.mistakes


class _BlockReader:
    """Assigns the lines of a run_configs text to blocks, in order."""

    def __init__(self, file: str, earlier: Mapping[str, Block]) -> None:
        self.file = file
        self.collector = Collector()
        self.blocks = dict(earlier)
        self._open: Block | None = None
        self._ended: Block | None = None
        # Comments since the last blank line, outside blocks, belong to the next block.
        self._comments_above: list[str] = []
        self._is_described = False

    def take(self, line: Line) -> None:
        """Process the next line."""
        if line.kind == "blank":
            self._ended = self._open or self._ended
            self._open = None
            self._comments_above = []
        elif line.kind == "comment":
            if self._open is None:
                self._comments_above.append(line.comment)
            # Comments further down belong to the settings below them.
            elif not self._open.assignments and not self._is_described:
                self._open.comments.append(line.comment)
        elif line.assignment is not None:
            assignment = replace(line.assignment, location=self._location(line))
            open_ = self._open or self._begin_unnamed(assignment)
            _append(open_.assignments, assignment, self.collector)
        elif HEADER.fullmatch(line.text):
            self._begin_block(line)
        else:
            self._refuse(line)

    def _location(self, line: Line) -> Location:
        return Location(self.file, line.number, self._open.name if self._open else "")

    def _begin_block(self, line: Line) -> None:
        if self._open is not None and self._open.name:
            self.collector.add(
                self._location(line),
                f"'{shortened(line.text)}' is inside config '{shortened(self._open.name)}'; a "
                "config begins after a blank line",
            )
        name, *parents = (part.strip() for part in line.text.split("<"))
        location = Location(self.file, line.number)
        block = Block(name, tuple(parents), Location(self.file, line.number, name))
        block.comments += self._comments_above
        if line.comment:
            block.comments.append(line.comment)
        # Read the lines of a duplicate block as well, to find their mistakes.
        first = self.blocks.setdefault(name, block)
        if first is not block:
            is_here = first.location.file == self.file
            place = f"on line {first.location.line}" if is_here else f"in {first.location}"
            self.collector.add(
                location, f"config '{shortened(name)}' is defined twice; the first is {place}"
            )
        self._open = block
        self._comments_above = []
        self._is_described = bool(block.comments)

    def _begin_unnamed(self, assignment: Assignment) -> Block:
        """Report an assignment outside a block, once per paragraph; return a block to hold it."""
        written = f"{shortened(assignment.target)} = {shortened(assignment.text, 30)}"
        text = f"'{written}' is not in a config"
        ended = self._ended
        problem = f"{text}; begin the block with a line containing its name"
        if ended is not None and ended.name:
            line_number = ended.location.line
            problem = (
                f"{text}: a blank line above ended '{shortened(ended.name)}' (line {line_number}); "
                "remove that line, or begin a block with a name"
            )
        self.collector.add(assignment.location, problem)
        self._open = Block("", (), assignment.location)
        return self._open

    def _refuse(self, line: Line) -> None:
        location = self._location(line)
        if self._open is None:
            form = f"names consist of {NAMES}, optionally followed by < parent < grandparent"
            problem = f"'{shortened(line.text)}' is not a config name; {form}"
            self.collector.add(location, problem)
            self._open = Block("", (), location)
        else:
            self.collector.add(location, _no_assignment(line))


def _no_assignment(line: Line) -> str:
    return f"'{shortened(line.text)}' is not a line of the form section.name = value"


def _append(
    assignments: dict[str, Assignment], assignment: Assignment, collector: Collector
) -> None:
    first = assignments.setdefault(assignment.target, assignment)
    if first is not assignment:
        target, line = shortened(assignment.target), first.location.line
        problem = f"{target} is set twice; the first is on line {line}"
        collector.add(assignment.location, problem)
