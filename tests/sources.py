"""The sources of the package, parsed once for all tests of how it is written."""

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "asdf").rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_command(path: Path) -> bool:
    """Whether a file is a command's: `command.py` of a room, or one of a folder `commands`."""
    return path.stem == "command" or "commands" in path.relative_to(ROOT).parts


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file, in the order of `ast.walk`."""
    all_nodes = list(ast.walk(parse(path)))
    # They live as long as the process: without this, each collection of garbage during later
    # tests would visit a million of them.
    gc.freeze()
    return all_nodes
