"""The text of init_config.py and run_configs.py, taken apart into assignments and named blocks.

Invariant: every line of a file ends up as exactly one thing (blank, comment, assignment, a block's first line) or
as a mistake; none is passed over or added to a block that it does not belong to. A blank line ends a block.
Values are read as literals here; whether they fit their settings is held against `sections.py` later.
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
    """One `section.name = value`; `text` is the value as it is written. It is broken if that is no literal."""

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
    """The assignments of an init_config text, and what is wrong with it."""
    found = Collector()
    assignments: dict[str, Assignment] = {}
    for line in read_lines(text, file, found):
        if line.kind == "assignment":
            _append(assignments, line, Location(file, line.number), found)
        elif line.kind == "other":
            found.add(
                Location(file, line.number),
                f"'{shortened(line.text)}' is no line of the form section.name = value",
            )
    return list(assignments.values()), found.mistakes


def parse_blocks(text: str, file: str) -> tuple[dict[str, Block], list[Mistake]]:
    """The blocks of a run_configs text by name, in their order, and what is wrong with it."""
    found = Collector()
    blocks: dict[str, Block] = {}
    block: Block | None = None
    above: list[str] = []
    described = False
    last: Block | None = None
    for line in read_lines(text, file, found):
        location = Location(file, line.number, block.name if block else "")
        if line.kind == "blank":
            last, block, above = block or last, None, []
        elif line.kind == "comment":
            if block is None:
                above.append(line.comment)
            elif not block.assignments and not described:
                block.comments.append(line.comment)
        elif line.kind == "assignment":
            if block is None:
                found.add(location, _orphan(line, last))
                # The rest of the paragraph is part of the same mistake.
                block = Block("", (), location)
            _append(block.assignments, line, location, found)
        elif HEADER.fullmatch(line.text):
            if block is not None and block.name:
                inside = f"'{shortened(line.text)}' stands inside config '{shortened(block.name)}'"
                found.add(location, f"{inside}; a config begins behind a blank line")
            block = _begin(line, Location(file, line.number), blocks, found)
            block.comments[:0] = above
            described = bool(block.comments)
            above = []
        else:
            found.add(location, _neither(line, block))
            block = block or Block("", (), location)
    return blocks, found.mistakes


def _neither(line: Line, block: Block | None) -> str:
    if block is not None:
        return f"'{shortened(line.text)}' is no line of the form section.name = value"
    form = f"names hold {NAMES}, optionally followed by < parent < grandparent"
    return f"'{shortened(line.text)}' is no name of a config; {form}"


def _orphan(line: Line, last: Block | None) -> str:
    text = f"'{shortened(line.text)} = {shortened(line.value_text, 30)}' belongs to no config"
    if last is None or not last.name:
        return f"{text}; begin the block with a line that holds its name"
    return (
        f"{text}: a blank line above ended '{shortened(last.name)}' (line {last.location.line}); "
        "remove that line, or begin a block with a name"
    )


def _begin(line: Line, location: Location, blocks: dict[str, Block], found: Collector) -> Block:
    name, *parents = (part.strip() for part in line.text.split("<"))
    block = Block(name, tuple(parents), Location(location.file, location.line, name))
    if line.comment:
        block.comments.append(line.comment)
    if name in blocks:
        found.add(
            location,
            f"config '{shortened(name)}' is there twice; the first is in line "
            f"{blocks[name].location.line}",
        )
    else:
        blocks[name] = block
    return block


def _append(
    assignments: dict[str, Assignment], line: Line, location: Location, found: Collector
) -> None:
    target = line.text
    if target in assignments:
        first = assignments[target].location.line
        found.add(location, f"{shortened(target)} is set twice; the first is in line {first}")
        return
    assignments[target] = Assignment(
        target, line.value, line.value_text, location, line.comment, line.broken
    )
