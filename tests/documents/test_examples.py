"""Examples can be copied as they stand: an explanation is a comment of the shell or config."""

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.documents.blocks import SETTING, SHELL, blocks_of
from tests.documents.test_run import PAGES, name_of
from tests.sources import FILES, is_command

MODULES = [*sorted((ROOT / "asdf").rglob("*.py")), *sorted((ROOT / "recipes").rglob("run.py"))]
# Two spaces set an explanation apart; within quotes they may be part of an argument.
EXPLAINED = re.compile(r"""[^\s'"]\s{2,}(?!#)\S""")
# A line by itself is either an example, or goes on where one ended with a backslash.
INDENT = 4


def examples_of(text: str) -> list[str]:
    """Return the lines that are commands or settings."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if SHELL.match(line) or SETTING.match(line)]


def wrong_in(text: str) -> list[str]:
    return [line for line in examples_of(text) if EXPLAINED.search(line.split(" # ")[0])]


def docstring_of(path: Path) -> str:
    try:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False) or ""
    except SyntaxError:
        # A config in the language of settings.
        return ""


def help_of(path: Path) -> str:
    """Return the examples of a module: the indented lines of its docstring."""
    lines = docstring_of(path).splitlines()
    return "\n".join(line for line in lines if line.startswith(" " * INDENT))


def test_an_explanation_without_its_sign_is_seen():
    wrong = "python -m asdf score network.pt call.mp3    one recording"
    right = "python -m asdf score network.pt call.mp3    # one recording"
    assert wrong_in(f"{wrong}\n{right}") == [wrong]
    assert wrong_in("loss.margin = 0.9   section loss") == ["loss.margin = 0.9   section loss"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_of_documents_can_be_copied(page: Path) -> None:
    wrong = []
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.kind in ("shell", "config"):
            wrong += wrong_in(block.text)
    assert wrong == []


@pytest.mark.slow
def test_examples_of_help_can_be_copied():
    wrong = {name_of(path): wrong_in(help_of(path)) for path in MODULES}
    assert {name: lines for name, lines in wrong.items() if lines} == {}
    # An explanation on a line of its own, under an example that was too long for both.
    stray = []
    for path in filter(is_command, FILES):
        before = ""
        for line in help_of(path).splitlines():
            if line.startswith(" " * (INDENT + 1)) and not before.endswith("\\"):
                stray.append(f"{name_of(path)}: {line.strip()}")
            before = line
    assert stray == []
    assert sum(len(examples_of(help_of(path))) for path in MODULES) > 100
