"""The files of docs/training_steps.md as modules, and their classes with settings of their own."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "training_steps.md"
FILE = re.compile(r"```python\n# (\w+)\.py\n(.*?)```", re.DOTALL)


def load(name: str) -> ModuleType:
    """Return a file of the page, as if it lay where modules are looked for."""
    # Not the file's own name, under which other tests have files of their recipes.
    shown = f"shown_{name}"
    if shown not in sys.modules:
        files = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))
        module = ModuleType(shown)
        sys.modules[shown] = module
        exec(compile(files[name], f"{name}.py", "exec"), module.__dict__)
    return sys.modules[shown]


def with_settings(kind: Any, **values: Any) -> type:
    """Return a training step of a class of the page, whose section has these values."""
    section = kind.own_settings.section_name

    class Step(kind):
        def __init__(self, settings: Any, folder: Path | None = None) -> None:
            settings.declared.setdefault(section, kind.own_settings(**values))
            super().__init__(settings, folder)

    return Step
