"""Public names of a package, imported on first use, since importing torch takes seconds.

Invariant: a package lists its public names once, as the imports under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def open_door(name: str, **elsewhere: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` and `__getattr__` of the package `name`, read from its own source.

        if TYPE_CHECKING:
            from asdf.room.file import offered

        __all__, __getattr__ = open_door(__name__)

    Args:
        elsewhere: Modules by further names that this package offers.
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
        # Python calls __getattr__ only for missing names, so the next access is free.
        setattr(package, wanted, value)
        return value

    # Names in capitals first, as linters sort them.
    return sorted(homes, key=lambda known: (not known.isupper(), known)), find
