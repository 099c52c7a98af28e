"""The text of init_config.py and run_configs.py, taken apart into assignments and named blocks.

Invariant: every line of a file ends up as exactly one thing (blank, comment, assignment, a block's
first line) or as a mistake; none is skipped or added to a block that it does not belong to. A blank
line ends a block. Values are read as literals here; whether they fit their settings is checked
later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from asdf.settings.lines import Line, read_lines
from asdf.settings.mistakes import Collector, Location, Mistake, shortened

HEADER = re.compile(r"[\w.-]+(\s*<\s*[\w.-]+)*")
NAMES = "letters, digits, '-', '_' and '.'"


@dataclass(frozen=True)
class Assignment:
    """One `section.name = value`; `text` is the value as it is written, `broken` if no literal."""

    target: str
    value: Any
    text: str
    location: Location
    comment: str = ""
    broken: bool = False


@dataclass
class Block:
    """One config of run_configs.py.

    Attributes:
        parents: the configs that it inherits from, the nearest first.
        assignments: its own settings by their targets, in the order of the file.
        comments: about the config: those above its name and behind it, or else those between its
            name and the first setting. All others are about the setting that follows.
    """

    name: str
    parents: tuple[str, ...]
    location: Location
    assignments: dict[str, Assignment] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)

    @property
    def header(self) -> str:
        """The first line as it would be written."""
        return " < ".join((self.name, *self.parents))


def parse_assignments(text: str, file: str) -> tuple[list[Assignment], list[Mistake]]:
    """Return the assignments of an init_config text, and what is wrong with it."""
    collector = Collector()
    assignments: dict[str, Assignment] = {}
    for line in read_lines(text, file, collector):
        location = Location(file, line.number)
        if line.kind == "assignment":
            _append(assignments, line, location, collector)
        elif line.kind == "other":
            collector.add(location, _no_assignment(line))
    return list(assignments.values()), collector.mistakes


def parse_blocks(text: str, file: str) -> tuple[dict[str, Block], list[Mistake]]:
    """Return the blocks of a run_configs text by name, in order, and what is wrong with it."""
    reader = _BlockReader(file)
    for line in read_lines(text, file, reader.collector):
        reader.take(line)
    return reader.blocks, reader.collector.mistakes


class _BlockReader:
    """Puts the lines of a run_configs text, one after another, where they belong."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.collector = Collector()
        self.blocks: dict[str, Block] = {}
        self._open: Block | None = None
        self._ended: Block | None = None
        # Comments since the last blank line, outside blocks: they are about the next block.
        self._comments_above: list[str] = []
        self._is_described = False

    def take(self, line: Line) -> None:
        """Put the next line where it belongs."""
        if line.kind == "blank":
            self._ended = self._open or self._ended
            self._open = None
            self._comments_above = []
        elif line.kind == "comment":
            if self._open is None:
                self._comments_above.append(line.comment)
            # Comments further down are about the settings that follow them.
            elif not self._open.assignments and not self._is_described:
                self._open.comments.append(line.comment)
        elif line.kind == "assignment":
            location = self._location(line)
            if self._open is None:
                self.collector.add(location, _no_config(line, self._ended))
                # The rest of the paragraph is part of the same mistake.
                self._open = Block("", (), location)
            _append(self._open.assignments, line, location, self.collector)
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
                f"'{shortened(line.text)}' stands inside config '{shortened(self._open.name)}'; a "
                "config begins after a blank line",
            )
        name, *parents = (part.strip() for part in line.text.split("<"))
        location = Location(self.file, line.number)
        block = Block(name, tuple(parents), Location(self.file, line.number, name))
        block.comments += self._comments_above
        if line.comment:
            block.comments.append(line.comment)
        # The lines of a second block of the name are read too, so that their mistakes are found.
        first = self.blocks.setdefault(name, block)
        if first is not block:
            self.collector.add(
                location,
                f"config '{shortened(name)}' is there twice; the first is in line "
                f"{first.location.line}",
            )
        self._open = block
        self._comments_above = []
        self._is_described = bool(block.comments)

    def _refuse(self, line: Line) -> None:
        location = self._location(line)
        if self._open is None:
            form = f"names hold {NAMES}, optionally followed by < parent < grandparent"
            problem = f"'{shortened(line.text)}' is no name of a config; {form}"
            self.collector.add(location, problem)
            self._open = Block("", (), location)
        else:
            self.collector.add(location, _no_assignment(line))


def _no_assignment(line: Line) -> str:
    return f"'{shortened(line.text)}' is no line of the form section.name = value"


def _no_config(line: Line, ended: Block | None) -> str:
    text = f"'{shortened(line.text)} = {shortened(line.value_text, 30)}' belongs to no config"
    if ended is None or not ended.name:
        return f"{text}; begin the block with a line that holds its name"
    return (
        f"{text}: a blank line above ended '{shortened(ended.name)}' (line {ended.location.line}); "
        "remove that line, or begin a block with a name"
    )


def _append(
    assignments: dict[str, Assignment], line: Line, location: Location, collector: Collector
) -> None:
    target = line.text
    if target in assignments:
        first = assignments[target].location.line
        problem = f"{shortened(target)} is set twice; the first is in line {first}"
        collector.add(location, problem)
        return
    assignments[target] = Assignment(
        target, line.value, line.value_text, location, line.comment, line.broken
    )
