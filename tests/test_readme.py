"""The README and the documents say what is true."""

import re
import sys
from pathlib import Path

import pytest

from asdf.settings.page import PAGE, settings_page
from docs import commands_page as commands

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_of_settings_is_current():
    text = PAGE.read_text(encoding="utf-8")
    assert text == settings_page(), "run: python -m asdf.settings.page"


# Python 3.13 writes '-o, --output OUT' where earlier ones repeat OUT.
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse words its help another way")
def test_the_page_of_commands_is_current(monkeypatch):
    for name, value in commands.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    text = commands.PAGE.read_text(encoding="utf-8")
    assert text == commands.commands_page(), "run: python docs/commands_page.py"


def test_it_is_short_and_names_every_document():
    assert len(README.splitlines()) < 200
    for path in sorted((ROOT / "docs").glob("*.md")):
        assert f"(docs/{path.name})" in README, path


def test_the_two_lines_stand_at_the_top():
    lines = [
        line.strip() for line in README.splitlines() if line.strip().startswith("python -m venv")
    ]
    start = "python -m venv .venv && . .venv/bin/activate && pip install -e"
    assert lines[0] == f"{start} . && python recipes/wav2vec_aasist/run.py quickstart"
    assert lines[1] == f"{start} '.[test]' && pytest"
    assert README.index(lines[1]) < 2500


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_files_that_documents_link_to_exist(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
