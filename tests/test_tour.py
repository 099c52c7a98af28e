"""The tour of docs/code.md names what exists, and states how much there is to read."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOUR = (ROOT / "docs" / "code.md").read_text(encoding="utf-8")
STOPS = re.findall(r"^\*\*(\d+)\. \[([\w/.]+)\]\(\.\./([\w/.]+)\)\*\*: (.+)$", TOUR, re.MULTILINE)
# A row of the table of the core: the folder, and the files in it.
CORE = re.findall(r"^\| `([\w/]+)` \| (`.+`) \|$", TOUR, re.MULTILINE)
# The stated number of lines may lag behind the code by this share.
TOLERANCE = 0.03


def defined_names(path: Path) -> set[str]:
    """The functions and classes of a module, methods as `Class.method`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
            names.update(f"{node.name}.{method.name}" for method in methods)
    return names


def core_files() -> list[Path]:
    return [
        ROOT / folder / name for folder, names in CORE for name in re.findall(r"`([\w.]+)`", names)
    ]


def test_there_are_twelve_stops_each_with_a_question() -> None:
    assert [number for number, *_ in STOPS] == [str(number) for number in range(1, 13)]
    assert TOUR.count("*Question: ") == len(STOPS)


@pytest.mark.parametrize(("number", "shown", "path", "names"), STOPS, ids=lambda value: str(value))
def test_a_stop_names_what_exists(number: str, shown: str, path: str, names: str) -> None:
    assert shown == path
    named = set(re.findall(r"`([\w.]+)`", names))
    assert named
    assert named <= defined_names(ROOT / path)


def test_every_file_that_the_text_names_exists() -> None:
    named = set(re.findall(r"`(asdf/[\w/]+(?:\.py)?)`", TOUR))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_core_is_as_long_as_the_tour_says() -> None:
    files = core_files()
    assert len(files) == len(set(files))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    (stated,) = re.findall(r"(\d+) files, ([\d,]+) lines", TOUR)
    assert int(stated[0]) == len(files)
    assert int(stated[1].replace(",", "")) == pytest.approx(lines, rel=TOLERANCE)
