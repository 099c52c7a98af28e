"""What a user can choose from: the configs of a run_configs file, and the settings there are."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable

from asdf.settings.blocks import Block, parse_blocks
from asdf.settings.catalogue import Known, catalogue, section_types
from asdf.settings.inheritance import inheritance_mistakes
from asdf.settings.lines import read_text
from asdf.settings.mistakes import raise_all
from asdf.settings.tokens import ASSIGNMENT_LINE

WIDTH = 80
# Deeper configs of a long chain stand no further to the right.
_DEEPEST = 8
_STEP = "  "
_HEAD = ("| setting | default | unit | meaning |", "|---|---|---|---|")


def list_configs(run_configs: str | os.PathLike[str]) -> str:
    """The configs of a file as a tree, each below the nearest of those it inherits from, with what is said of it.

    No line is wider than 80 columns. What is said of a config are the comments in front of its settings; a line
    that stands further to the right there, such as a command, stays a line of its own.

    Raises:
        SettingsError: the file is missing or has mistakes in it.
    """
    blocks, in_text = parse_blocks(read_text(run_configs, "run configs"), str(run_configs))
    in_parents = inheritance_mistakes(blocks)
    raise_all([*in_text, *in_parents])
    children: dict[str, list[Block]] = {}
    for block in blocks.values():
        children.setdefault(block.parents[0] if block.parents else "", []).append(block)
    lines: list[str] = []
    stack = [(0, block) for block in reversed(children.get("", []))]
    while stack:
        depth, block = stack.pop()
        lines += _entry(block, _STEP * min(depth, _DEEPEST))
        stack += [(depth + 1, child) for child in reversed(children.get(block.name, []))]
    return "\n".join(lines)


def _entry(block: Block, indent: str) -> list[str]:
    lines = _wrapped(block.header, indent)
    for paragraph in _paragraphs(block.comments):
        lines += _wrapped(paragraph, indent + 2 * _STEP)
    return lines


def _paragraphs(comments: Iterable[str]) -> list[str]:
    """Lines that follow each other joined into one text; a line that stands further to the right is one by itself."""
    paragraphs: list[str] = []
    goes_on = False
    for comment in comments:
        # A setting that is commented out says nothing about the config.
        if not comment or ASSIGNMENT_LINE.match(comment):
            goes_on = False
            continue
        alone = comment.startswith((" ", "\t"))
        if goes_on and not alone:
            paragraphs[-1] += f" {comment}"
        else:
            paragraphs.append(comment.expandtabs(4))
        goes_on = not alone
    return paragraphs


def _wrapped(text: str, indent: str) -> list[str]:
    further = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.strip(),
        WIDTH,
        initial_indent=indent + further,
        subsequent_indent=indent + further + _STEP * bool(further),
        break_on_hyphens=False,
    )


def markdown_tables() -> str:
    """Return a heading and a table for each section: setting, default, unit, meaning."""
    parts = []
    for section, kind in section_types().items():
        about = str(kind.__doc__).partition("\n")[0]
        rows = [
            _row(name, known) for name, known in catalogue().items() if known.section == section
        ]
        parts += [f"## `{section}`", "", about, "", *_HEAD, *rows, ""]
    return "\n".join(parts)


def _row(name: str, known: Known) -> str:
    cells = [f"`{name}`", f"`{known.default!r}`", known.metadata["unit"], known.metadata["meaning"]]
    # A bar would end the cell.
    escaped = [re.sub(r"\|", r"\\|", cell) for cell in cells]
    return f"| {' | '.join(escaped)} |"
