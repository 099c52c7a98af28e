"""The README says what is true."""

from pathlib import Path

from asdf.settings.readme import BEGIN, with_table

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_settings_is_current():
    assert BEGIN in README
    assert with_table(README) == README, "run: python -m asdf.settings.readme"


def test_the_two_lines_stand_at_the_top():
    lines = [
        line.strip() for line in README.splitlines() if line.strip().startswith("python -m venv")
    ]
    start = "python -m venv .venv && . .venv/bin/activate && pip install -e"
    assert lines[0] == f"{start} . && python recipes/wav2vec_aasist/run.py quickstart"
    assert lines[1] == f"{start} '.[test]' && pytest"
    assert README.index(lines[1]) < 2500


def test_files_that_it_links_to_exist():
    import re

    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
