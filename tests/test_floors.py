"""Imports point only downward: who reads a room needs to know only the rooms below it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# From the ground up: a room imports only rooms that stand before it.
ROOMS = [
    "errors",
    "text",
    "facts",
    "runs",
    "settings",
    "distributed",
    "archives",
    "audio",
    "trials",
    "segments",
    "metrics",
    "report",
    "demo",
    "data",
    "corpora",
    "networks",
    "hub",
    "interchange",
    "scoring",
    "training",
    "memory",
    "doctor",
    "recipe",
    "launcher",
    "service",
    "commands",
    "evaluation",
    "__init__",
    "__main__",
]
FLOOR = {room: number for number, room in enumerate(ROOMS)}
FILES = sorted((ROOT / "asdf").rglob("*.py"))
# Services that may stay shut: the others know their doors (`__init__`) alone.
ANNEXES = {
    "archives",
    "corpora",
    "demo",
    "doctor",
    "hub",
    "interchange",
    "launcher",
    "memory",
    "report",
    "service",
}
DOORS = {*(f"asdf.{room}" for room in ANNEXES), "asdf.report.plots"}
# Rooms that other programs may use without torch; and all on the way to --list and --explain.
NUMPY_ONLY = {
    *("facts", "text", "settings", "runs", "trials", "segments", "metrics", "report", "hub"),
}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "asdf").parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    return modules | {
        node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downward(path: Path) -> None:
    own = room_of(path)
    for module in imported_modules(path):
        parts = module.split(".")
        if parts[0] == "asdf" and len(parts) > 1 and parts[1] != own:
            assert FLOOR[parts[1]] < FLOOR[own], f"{own} imports {module}, which stands above it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_annexes_are_entered_by_their_doors(path: Path) -> None:
    own = room_of(path)
    for module in imported_modules(path):
        parts = module.split(".")
        if parts[0] == "asdf" and len(parts) > 1 and parts[1] in ANNEXES:
            assert parts[1] == own or module in DOORS, f"{own} imports {module}, not its door"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_recipe_floor_reads_the_singleton(path: Path) -> None:
    if FLOOR[room_of(path)] >= FLOOR["recipe"] or room_of(path) == "settings":
        return
    names = {
        node.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name)
    }
    assert "Settings" not in names


@pytest.mark.parametrize(
    "path", [p for p in FILES if room_of(p) in NUMPY_ONLY], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_lowest_rooms_do_without_torch(path: Path) -> None:
    assert not {
        module
        for module in imported_modules(path)
        if module.split(".")[0] in ("torch", "torchaudio", "scipy")
    }
