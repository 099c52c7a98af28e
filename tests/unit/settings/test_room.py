from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import asdf.settings

ROOM = Path(asdf.settings.__file__).parent


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, asdf.settings as s; s.Settings().snapshot(); s.markdown_tables();"
        "print(sorted({'torch', 'numpy', 'torchaudio', 'soundfile'} & sys.modules.keys()))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


def test_nothing_can_be_run() -> None:
    for path in ROOM.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"eval", "exec", "compile", "__import__"}, path.name


def test_the_standard_library_and_floor_0_are_all_that_is_imported() -> None:
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                continue
            for module in modules:
                own = module in (
                    "asdf.errors",
                    "asdf.ports",
                    "asdf.removed",
                    "asdf.text",
                ) or module.startswith(("asdf.settings", "asdf.runs"))
                assert own or module.partition(".")[0] in sys.stdlib_module_names, (
                    f"{path.name}: {module}"
                )
