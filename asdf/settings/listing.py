"""The available choices: the configs in a run_configs file, and all settings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from asdf.settings.catalogue import Known, describe_names, our_catalogue, section_types
from asdf.settings.config_files import Block, parse_blocks, read_text
from asdf.settings.literals import ASSIGNMENT_LINE
from asdf.settings.loading import inheritance_mistakes
from asdf.settings.mistakes import raise_all
from asdf.text import AnyPath

WIDTH = 80
# Deeper configs of a long chain are not indented further.
_DEEPEST = 8
_STEP = "  "
_HEAD = ("| setting | default | meaning |", "|---|---|---|")


def list_configs(run_configs: AnyPath) -> str:
    """Return the configs of a file as a tree, each below its nearest parent, with descriptions.

    Lines have at most 80 columns. The comments before a config's settings describe it; an indented
    comment, such as a command, stays on a line of its own.

    Raises:
        SettingsError: the file is missing or has mistakes.
    """
    blocks, in_text = parse_blocks(read_text(run_configs, "run configs"), str(run_configs))
    raise_all([*in_text, *inheritance_mistakes(blocks)])
    children: dict[str, list[Block]] = {}
    for block in blocks.values():
        # A tree has one parent per entry: the nearest one, which determines most settings.
        parent = block.parents[0] if block.parents else ""
        children.setdefault(parent, []).append(block)
    lines: list[str] = []
    # Use a stack, since a chain of configs may exceed Python's recursion limit.
    stack = [(0, block) for block in reversed(children.get("", []))]
    while stack:
        depth, block = stack.pop()
        indent = _STEP * min(depth, _DEEPEST)
        lines += _wrap(block.header, indent)
        for paragraph in _paragraphs(block.comments):
            lines += _wrap(paragraph, indent + 2 * _STEP)
        for child in reversed(children.get(block.name, [])):
            stack.append((depth + 1, child))
    return "\n".join(lines)


def _paragraphs(comments: Iterable[str]) -> list[str]:
    """Join consecutive lines into paragraphs; an indented line is a paragraph of its own."""
    paragraphs: list[str] = []
    goes_on = False
    for comment in comments:
        # A commented-out setting does not describe the config.
        if not comment or ASSIGNMENT_LINE.match(comment):
            goes_on = False
            continue
        is_indented = comment.startswith((" ", "\t"))
        if goes_on and not is_indented:
            paragraphs[-1] += f" {comment}"
        else:
            paragraphs.append(comment.expandtabs(4))
        goes_on = not is_indented
    return paragraphs


def _wrap(text: str, indent: str) -> list[str]:
    bare = text.strip()
    further = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        bare,
        WIDTH,
        initial_indent=indent + further,
        subsequent_indent=indent + further + _STEP * bool(further),
        # Keep names of configs and options such as --dry-run whole, for copying.
        break_on_hyphens=False,
    )


def markdown_tables() -> str:
    """Return a heading and a table per section: setting, default with unit, meaning."""
    parts: list[str] = []
    for section, kind in section_types().items():
        about = str(kind.__doc__).partition("\n")[0]
        parts += [f"## `{section}`", "", about, "", *_HEAD]
        parts += map(_row, our_catalogue().part(section))
        parts.append("")
    return "\n".join(parts)


def _row(known: Known) -> str:
    default = f"`{known.default!r}` {known.metadata['unit']}".rstrip()
    meaning = known.metadata["meaning"]
    if known.metadata["names"]:
        meaning += f": {describe_names(known)}"
    cells = [f"`{known.full}`", default, meaning]
    # A bar would end the cell.
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"
