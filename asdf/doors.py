"""The door of a room: names that are imported when they are first used, since torch takes seconds.

Invariant: what a door offers stands in it once, as the imports that type checkers make.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def open_door(name: str, **elsewhere: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` and `__getattr__` of the package `name`, from its own source.

        if TYPE_CHECKING:
            from asdf.room.file import offered

        __all__, __getattr__ = open_door(__name__)

    Args:
        elsewhere: Modules of names that scripts of earlier versions import from this package.
    """
    package = sys.modules[name]
    homes: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{name}."):
            homes.update((alias.name, str(node.module)) for alias in node.names)

    def find(wanted: str) -> Any:
        home = homes.get(wanted) or elsewhere.get(wanted)
        if home is None:
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
        value = getattr(import_module(home), wanted)
        # Python asks only for names that the package lacks: the next use costs nothing.
        setattr(package, wanted, value)
        return value

    # Names in capitals first, as linters sort them.
    return sorted(homes, key=lambda known: (not known.isupper(), known)), find
