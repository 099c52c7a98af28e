"""The README and the documents say what is true."""

import re
import sys
from pathlib import Path

import pytest

from asdf.settings.page import pages
from docs import commands_page as commands

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ("recipes", "wav2vec_aasist")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tables_of_settings_are_current():
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m asdf.settings.page"


# Python 3.13 writes '-o, --output OUT' where earlier ones repeat OUT.
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse words its help another way")
def test_the_page_of_commands_is_current(monkeypatch):
    for name, value in commands.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    text = commands.PAGE.read_text(encoding="utf-8")
    assert text == commands.commands_page(), "run: python docs/commands_page.py"


def test_it_is_one_screen_and_the_start_page_names_every_document():
    assert len(README.splitlines()) <= 90
    assert len(README.split()) <= 750
    assert len(re.findall(r"\]\(", README)) <= 15
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").glob("*.md")):
        assert path.name == "index.md" or f"({path.name})" in start, path


def test_the_two_lines_stand_at_the_top():
    lines = [
        line.strip() for line in README.splitlines() if line.strip().startswith("python -m venv")
    ]
    start = "python -m venv .venv && . .venv/bin/activate && pip install -e"
    assert lines[0] == f"{start} . && python recipes/wav2vec_aasist/run.py quickstart"
    assert lines[1] == f"{start} '.[test]' && pytest"
    assert README.index(lines[1]) < 2500


def percent(pattern: str, *path: str) -> float:
    """Return the number that stands in a document in place of the group of a pattern."""
    text = " ".join(ROOT.joinpath(*path).read_text(encoding="utf-8").split())
    [number] = re.findall(pattern, text)
    return float(number)


def test_the_numbers_of_the_quickstart_are_those_of_one_run_everywhere():
    whole = {
        percent(r"demo-eval (\d+\.\d+) 0\.\d+", "docs", "start.md"),
        percent(r"`quickstart` \| [^|]*demo-eval (\d+\.\d+) %", *RECIPE, "README.md"),
        percent(r">all: EER (\d+\.\d) %", "docs", "quickstart.svg"),
        percent(r"quickstart has (\d+) % on the demo corpus's evaluation", "docs", "detector.md"),
    }
    unseen = {
        percent(r"The unseen one \((\d+) %\)", "docs", "start.md"),
        percent(r"an unseen one \| 0\.0; (\d+\.\d) ", "README.md"),
        percent(r"seen attacks 0 %, the unseen one (\d+) %", *RECIPE, "README.md"),
        percent(r">unseen attack: EER (\d+\.\d) %", "docs", "quickstart.svg"),
        percent(r"EER of 0 %, the unseen one (\d+) %", "docs", "judging.md"),
        percent(r"and (\d+) % for the unseen attack on one kind of CPU", "docs", "exactness.md"),
    }
    costs = {
        percent(r"demo-eval \d+\.\d+ (0\.\d+)", "docs", "start.md"),
        percent(r"quickstart has a minDCF of (0\.\d+)", "docs", "exactness.md"),
    }
    assert (len(whole), len(unseen), len(costs)) == (1, 1, 1)


def test_the_numbers_of_another_cpu_are_the_same_everywhere():
    """And stand next to the claim of bits, which ends there."""
    exact = (percent(r"unseen attack on one kind of CPU, (0\.\d+)", "docs", "exactness.md"),)
    assert exact == (percent(r"one of them the minDCF is (0\.\d+)", "docs", "start.md"),)
    other = percent(r"and (\d+) % on another, with the same settings", "docs", "exactness.md")
    assert other == percent(r"the unseen attack has (\d+) %", "docs", "start.md")
    claims = re.findall(r"[^.]*to the last bit[^.]*", " ".join(README.split()))
    assert "On CPUs of one kind, with one set of versions" in claims[0]


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_files_that_documents_link_to_exist(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
