"""Code of a network's modules, extracted from ASDF and reduced to its forward pass.

Invariant: the result is the project's own code without branches that cannot be taken: those of
tracers, of gradients on a CPU, of weights that are cast together, and those that depend on
attributes with one value in all modules of a class. No code is written anew, so the results are
those of the network.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from asdf.interchange.portable_reducing import (
    OURS,
    REPLACED_NAMES,
    Known,
    UnportableError,
    reduced,
    reduced_node,
    top_level,
)


@dataclass
class Code:
    """The functions, classes, constants and imports that a network's methods need.

    Attributes:
        accessed: Names of all attributes that the code reads.
        called: Names of those attributes that it calls.
        definitions: Top-level statements by name, ordered by dependency.
        imports: Lines of the imports.
    """

    accessed: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    _origins: dict[str, str] = field(default_factory=dict)

    def method(self, function: FunctionType, known: Known) -> ast.FunctionDef:
        """Return a method without unreachable code, and include what it needs.

        Args:
            known: Values of attributes of `self`, by name.

        Raises:
            UnportableError: it needs code that is neither ASDF's nor a package's.
        """
        node = reduced(function, known)
        self.include_names(node, function.__globals__)
        return node

    def include_names(self, node: ast.AST, names: Mapping[str, Any]) -> None:
        """Include what `node` uses of `names`, the globals of its module.

        If two objects have the same name, the second one is renamed, also in `node`.
        """
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute):
                self.accessed.add(inner.attr)
            elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                self.called.add(inner.func.attr)
        for name in _free_names(node):
            if name in names:
                new = self._include(name, names[name])
                if new != name:
                    _rename(node, name, new)

    def _include(self, name: str, value: Any) -> str:
        """Include the object of a name; return its name in the code."""
        if name in REPLACED_NAMES or getattr(builtins, name, None) is value:
            return name
        if isinstance(value, ModuleType):
            alias = "" if value.__name__ == name else f" as {name}"
            self.imports.add(f"import {value.__name__}{alias}")
            return name
        module = getattr(value, "__module__", None)
        if isinstance(value, bool | int | float | str | tuple) or value is None:
            return self._define(name, repr(value), lambda: ast.parse(f"{name} = {value!r}").body[0])
        if module is None or not hasattr(value, "__qualname__"):
            raise UnportableError(f"its code needs {name}, which is neither a function nor a class")
        if f"{module}.".startswith(OURS):
            return self._define(name, module, lambda: self._taken(name, module, value))
        self.imports.add(f"from {module} import {name}")
        return name

    def _define(self, name: str, origin: str, make: Callable[[], Any]) -> str:
        """Add a definition unless it exists.

        Args:
            origin: Module of the definition, or a constant's value.
        """
        new = name
        number = 2
        while self._origins.setdefault(new, origin) != origin:
            new = f"{name}_{number}"
            number += 1
        if new not in self.definitions:
            # Recursion ends at a known name; its dependencies come before it.
            self.definitions[new] = ast.Pass()
            made = make()
            del self.definitions[new]
            if new != name:
                _rename(made, name, new)
            self.definitions[new] = made
        return new

    def _taken(self, name: str, module: str, value: Any) -> ast.stmt:
        """Return the reduced function or class from its module."""
        names = vars(sys.modules[module])
        if isinstance(value, FunctionType | type):
            node: ast.stmt = reduced_node(top_level(module, value.__qualname__), names, {})
            self.include_names(node, names)
            return node
        raise UnportableError(f"its code needs {name} of {module}, which was made while running")


def _rename(node: ast.AST, name: str, new: str) -> None:
    """Rename a module's name in what reads or defines it."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id == name:
            inner.id = new
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef) and inner.name == name:
            inner.name = new


def _free_names(node: ast.AST) -> list[str]:
    """Return the names that are read, in order, without the function's local names."""
    stored = set()
    read: dict[str, None] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            stored.add(inner.arg)
        elif isinstance(inner, ast.Name):
            if isinstance(inner.ctx, ast.Load):
                read[inner.id] = None
            else:
                stored.add(inner.id)
    return [name for name in read if name not in stored]
