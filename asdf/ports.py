"""Lookup of what extras provide: modules and classes by name, imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

# A name, and no import statement: the core works without extras.
_EXTRAS = f"{__package__}.extras"


def provided(table: str) -> Mapping[str, Any]:
    """Return a table of the extras, such as 'COMMANDS'; an empty one where there are no extras."""
    try:
        extras = import_module(_EXTRAS)
    except ModuleNotFoundError as error:
        if error.name != _EXTRAS:
            raise
        return {}
    entries: Mapping[str, Any] = getattr(extras, table)
    return entries


def load(path: str) -> Any:
    """Import the class or function at `path`, such as 'package.module.Class'."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
