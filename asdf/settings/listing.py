"""What a user can choose from: the configs of a run_configs file, and the settings there are."""

from __future__ import annotations

import os
import re

from asdf.settings.blocks import Block, parse_blocks
from asdf.settings.catalogue import catalogue
from asdf.settings.inheritance import application_orders
from asdf.settings.lines import read_text
from asdf.settings.mistakes import raise_all
from asdf.settings.tokens import ASSIGNMENT_LINE

WIDEST = 44


def list_configs(run_configs: str | os.PathLike[str]) -> str:
    """The configs of a file as a tree, each below the nearest of those it inherits from, with its comments.

    Raises:
        SettingsError: the file is missing or has mistakes in it.
    """
    blocks, in_text = parse_blocks(read_text(run_configs, "run configs"), str(run_configs))
    _, in_parents = application_orders(blocks)
    raise_all([*in_text, *in_parents])
    children: dict[str, list[Block]] = {}
    for block in blocks.values():
        children.setdefault(block.parents[0] if block.parents else "", []).append(block)
    rows: list[tuple[str, Block]] = []
    stack = [(0, block) for block in reversed(children.get("", []))]
    while stack:
        depth, block = stack.pop()
        rows.append((f"{'  ' * depth}{block.header}", block))
        stack += [(depth + 1, child) for child in reversed(children.get(block.name, []))]
    width = min(max((len(label) for label, _ in rows), default=0), WIDEST)
    return "\n".join(line for label, block in rows for line in _entry(label, block, width))


def _entry(label: str, block: Block, width: int) -> list[str]:
    # A setting that is commented out says nothing about the config.
    comments = [comment for comment in block.comments if comment and not ASSIGNMENT_LINE.match(comment)]
    if not comments:
        return [label]
    first = [f"{label:<{width}}  {comments[0]}"] if len(label) <= width else [label, f"{'':<{width}}  {comments[0]}"]
    return first + [f"{'':<{width}}  {comment}" for comment in comments[1:]]


def markdown_table() -> str:
    """The README's table of all settings: name, default, unit, meaning."""
    rows = ["| setting | default | unit | meaning |", "|---|---|---|---|"]
    for name, known in catalogue().items():
        cells = (f"`{name}`", f"`{known.default!r}`", known.metadata["unit"], known.metadata["meaning"])
        rows.append("| " + " | ".join(re.sub(r"\|", r"\\|", cell) for cell in cells) + " |")
    return "\n".join(rows) + "\n"
