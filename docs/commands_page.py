"""Bring docs/commands.md up to date with the options of each command.

python docs/commands_page.py
"""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
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

This page is made from the code by `python docs/commands_page.py`; `COMMAND --help` and
`--help all` say more.

| command | what it does |
|---|---|
"""

_ENTRY = re.compile(r"^  ((?:-\S|NETWORK ).*(?:\n {4,}\S.*)*)\n", re.MULTILINE)
_HELP = ("-h, --help", "show this help message and exit")
_SHARED_BY = 3
"""Options of as many commands, and NETWORK, are on the page once if their words are the same."""


def commands_page() -> str:
    """Return the text of docs/commands.md: the commands, with examples and options of each."""
    helps = {}
    for command in COMMANDS:
        parser = importlib.import_module(module_name(command)).COMMAND.parser()
        parser.description = _shown(parser.description or "")
        helps[command] = re.sub(r" +$", "", parser.format_help(), flags=re.MULTILINE)
    counts = Counter(_words(entry) for text in helps.values() for entry in _ENTRY.findall(text))
    shared = {words for words, count in counts.items() if count >= _SHARED_BY}
    parts = [_START]
    for command, summary in COMMANDS.items():
        parts.append(f"| [`{command}`](#{command}) | {summary} |\n")
    parts.append("\n## Options of several commands\n\n| option | meaning |\n|---|---|\n")
    for option, meaning in sorted(shared - {_HELP}):
        parts.append(f"| `{option}` | {meaning} |\n")
    for command, text in helps.items():
        parts.append(f"\n## {command}\n\n```text\n{_without(text, shared)}```\n")
    return "".join(parts)


def _shown(description: str) -> str:
    """Return the first paragraph of a description and its examples; `--help` says the rest."""
    first, *others = description.strip().split("\n\n")
    return "\n\n".join([first, *(part for part in others if part.startswith("    "))])


def _words(entry: str) -> tuple[str, str]:
    """Return an option with its argument, and its meaning, of an entry of argparse's help."""
    option, _, meaning = entry.partition("  ")
    if "\n" in option:
        option, _, meaning = entry.partition("\n")
    return option.strip(), " ".join(meaning.split())


def _without(text: str, shared: set[tuple[str, str]]) -> str:
    """Return the help of a command with the names alone of the options that are shared."""
    groups = []
    for group in text.rstrip("\n").split("\n\n"):
        names: list[str] = []
        for entry in _ENTRY.findall(f"{group}\n"):
            if _words(entry) in shared:
                names += (options := re.findall(r"--[\w-]+", _words(entry)[0]))
                left = "" if options else f"  {_words(entry)[0]}\n"
                group = f"{group}\n".replace(f"  {entry}\n", left).rstrip("\n")
        names = [name for name in names if name != "--help"]
        groups.append("\n  ".join([group, *filter(None, [", ".join(names)])]))
    return "\n\n".join(group for group in groups if group != "options:") + "\n"


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    write_text(PAGE, commands_page())
