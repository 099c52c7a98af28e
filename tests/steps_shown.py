"""Files of docs/training_steps.md and docs/your_own.md as modules; classes with settings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
FILE = re.compile(r"```python\n# (\w+)\.py\n(.*?)```", re.DOTALL)


def shown_files() -> dict[str, str]:
    """Return the files of the pages by their modules."""
    pages = [DOCS / "training_steps.md", DOCS / "your_own.md"]
    return dict(FILE.findall("\n".join(page.read_text(encoding="utf-8") for page in pages)))


def load(name: str) -> ModuleType:
    """Return a file of the pages, as if it lay where modules are looked for."""
    # Not the file's own name, under which other tests have files of their recipes.
    shown = f"shown_{name}"
    if shown not in sys.modules:
        module = ModuleType(shown)
        sys.modules[shown] = module
        exec(compile(shown_files()[name], f"{name}.py", "exec"), module.__dict__)
    return sys.modules[shown]


def with_settings(kind: Any, **values: Any) -> type:
    """Return a training step of a class of the page, whose section has these values."""
    section = kind.own_settings.section_name

    class Step(kind):
        def __init__(self, settings: Any, folder: Path | None = None) -> None:
            settings.declared.setdefault(section, kind.own_settings(**values))
            super().__init__(settings, folder)

    return Step
