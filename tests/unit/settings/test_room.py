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


def test_nothing_can_be_run_and_only_floor_0_is_imported() -> None:
    ours = ("asdf.errors", "asdf.ports", "asdf.removed", "asdf.text", "asdf.settings", "asdf.runs")
    for path in ROOM.glob("*.py"):
        modules: list[str] = []
        called = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules.append(node.module or "")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called.add(node.func.id)
        assert not called & {"eval", "exec", "compile", "__import__"}, path.name
        others = [name for name in modules if not name.startswith(ours)]
        assert {name.partition(".")[0] for name in others} <= sys.stdlib_module_names, path.name
