"""Files that docs and recipes/ideas show, as modules; classes with settings."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs" / name for name in ("your_own.md", "training.md")]
IDEAS = ROOT / "recipes" / "ideas"
FILE = re.compile(r"```python\n# (\w+)\.py\n(.*?)```", re.DOTALL)


def shown_files() -> dict[str, str]:
    """Return the files of the pages and of recipes/ideas by their modules."""
    files = dict(FILE.findall("\n".join(page.read_text(encoding="utf-8") for page in PAGES)))
    for path in sorted(IDEAS.glob("*.py")):
        files[path.stem] = path.read_text(encoding="utf-8")
    return files


def load(name: str) -> ModuleType:
    """Return a file that is shown, as if it lay where modules are looked for."""
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
