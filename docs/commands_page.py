"""Bring docs/commands.md up to date with the options of each command.

python docs/commands_page.py
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

from asdf.__main__ import COMMANDS, module_name
from asdf.runs.files import write_text

PAGE = Path(__file__).resolve().with_name("commands.md")

ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1"}
"""The width and the look of the page: argparse reads both from the environment."""

_START = """# All commands

`python -m asdf COMMAND`, or `asdf-antispoofing COMMAND` where a wheel is installed. Recipes have a
command line of their own: `python run.py --help` in the recipe's folder, and
[recipes and configs](start.md#configs).

This page is made from the code by `python docs/commands_page.py`.

| command | what it does |
|---|---|
"""


def commands_page() -> str:
    """Return the text of docs/commands.md: a list of the commands, and the --help of each."""
    parts = [_START]
    for command, summary in COMMANDS.items():
        parts.append(f"| [`{command}`](#{command}) | {summary} |\n")
    for command in COMMANDS:
        parser = importlib.import_module(module_name(command)).COMMAND.parser()
        text = re.sub(r" +$", "", parser.format_help(), flags=re.MULTILINE)
        parts.append(f"\n## {command}\n\n```text\n{text}```\n")
    return "".join(parts)


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    write_text(PAGE, commands_page())
