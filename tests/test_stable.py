"""The page of what stays: its names exist, mean what it says, have examples, and do not change."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
from typing import Any

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "api" / "stable.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \[?`([\w.]+)`(?:\]\(([\w.#]+)\))? \| (.+) \|$", PAGE, re.MULTILINE)
NAMES = [name for name, _, _ in ROWS]
SIGNATURES = ROOT / "tests" / "fixtures" / "stable.txt"
# Functions of numbers: a line shows how they are called.
WITH_EXAMPLES = [
    name
    for name, link, _ in ROWS
    if link.startswith("evaluation.md") and name.rpartition(".")[2].islower()
]


def named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def signature(name: str) -> str:
    """Return a name with the parameters that callers may pass, and their defaults."""
    found = inspect.signature(named(name))
    parameters = []
    for parameter in found.parameters.values():
        if not parameter.name.startswith("_"):
            parameters.append(parameter.replace(annotation=inspect.Parameter.empty))
    shown = str(inspect.Signature(parameters))
    # How a default is shown is the version of Python's.
    return f"{name}{re.sub('PosixPath|WindowsPath', 'Path', shown)}"


def test_about_sixty_names_stay() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert 50 <= len(NAMES) <= 65


@pytest.mark.parametrize(("name", "link", "words"), ROWS, ids=NAMES)
def test_a_name_is_what_its_row_says(name: str, link: str, words: str) -> None:
    value = named(name)
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    assert paragraph.startswith(words.rstrip("."))
    if link:
        page, _, anchor = link.partition("#")
        assert f"::: {anchor}\n" in (ROOT / "docs" / "api" / page).read_text() + "\n"
        assert named(anchor) is value


def test_every_name_of_the_api_pages_stays() -> None:
    documented = set()
    for page in (ROOT / "docs" / "api").glob("*.md"):
        documented.update(re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE))
    assert documented == {link.partition("#")[2] for _, link, _ in ROWS if link}


def test_signatures_are_those_of_the_file() -> None:
    """ASDF_FREEZE=1 writes them; a change goes into the changelog with the version it works until.

    Names and defaults of parameters, and their order, are what callers rest on.
    """
    shown = [signature(name) for name in NAMES]
    if os.environ.get("ASDF_FREEZE"):
        SIGNATURES.write_text("\n".join(shown) + "\n", encoding="utf-8")
    assert shown == SIGNATURES.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_runs_and_gives_what_it_shows(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    value = named(name)
    [example] = doctest.DocTestFinder(recurse=False).find(value, name)
    assert example.examples, f"{name} has no example"
    outcome = doctest.DocTestRunner().run(example)
    assert outcome.failed == 0
