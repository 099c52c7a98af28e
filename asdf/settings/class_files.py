"""What the file of a class says about it, read as text: torch is not imported for it.

A class of networks owns its facts: its short name in configs (`short_name`), its sizes (a
dataclass derived from `OwnSettings` in its file), whether it keeps time (`frame_step`), takes one
length (`one_length`) or has a front end. Files are found by their folders, and named nowhere else.

Invariant: nothing that is read is run.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from asdf.ports import provided
from asdf.settings import fields
from asdf.settings.literals import parse_literal

OUR_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = ("asdf.networks.back_ends", "asdf.networks.front_ends", "asdf.networks")
_CLASS = re.compile(r"^class (\w+)(|\([^)]*\)):\n((?:(?: .*)?\n)*)", re.MULTILINE)
_OFFERED = re.compile(r"^    (short_name|back_end_class|front_end_class)\b.* = ", re.MULTILINE)
# Where a pickle finds the settings that classes of networks declare.
_HOME = "asdf.settings.sections"
_SECTION = re.compile(r'section_name="(\w+)"')
_SHORT_NAME = re.compile(r'^    short_name = "(\w+)"', re.MULTILINE)


def is_ours(name: str) -> bool:
    """Whether a class path or module is in the project's package."""
    return name.startswith(f"{OUR_PACKAGE.name}.")


def file_in(folder: Path, module_name: str) -> Path:
    """Return the path of a module's source, if it lies in `folder`."""
    path = folder / module_name.replace(".", "/")
    if path.is_dir():
        return path / "__init__.py"
    return path.with_name(f"{path.name}.py")


def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a file; as bytes, whose encoding Python finds in its first lines.

    Raises:
        OSError, SyntaxError, ValueError: it cannot be read.
    """
    return ast.parse(file.read_bytes(), str(file))


class _Written(NamedTuple):
    """A class as its file has it, with the imports of the file."""

    module: str
    imports: str
    text: str
    bases: str
    body: str


@cache
def _network_classes() -> dict[str, _Written]:
    """Return each class of the project's networks, by name."""
    found = {}
    for package in (*_FOLDERS, *provided("NETWORKS")):
        for file in sorted(file_in(OUR_PACKAGE.parent, package).parent.glob("*.py")):
            text = file.read_text(encoding="utf-8")
            imports = ""
            for match in _CLASS.finditer(text):
                name, bases, body = match.groups()
                imports = imports or text[: match.start()]
                found[name] = _Written(f"{package}.{file.stem}", imports, match[0], bases, body)
    return found


@cache
def network_modules() -> dict[str, str]:
    """Return the module of each class that `asdf.networks` offers without naming it."""
    offered = {}
    for name, written in _network_classes().items():
        if written.module.rpartition(".")[0] != "asdf.networks" and _OFFERED.search(written.body):
            offered[name] = written.module
    return offered


def short_names(kind: Literal["BackEnd", "FrontEnd"]) -> dict[str, str]:
    """Return the class paths of front ends or back ends by their short names in configs."""
    names = {}
    for name, written in _network_classes().items():
        short = _SHORT_NAME.search(written.body)
        if short and name.endswith(kind):
            names[short[1]] = f"asdf.networks.{name}"
    return names


@cache
def declared_settings() -> tuple[type[fields.OwnSettings], ...]:
    """Return the dataclasses of settings in the files of networks."""
    kinds = []
    for name, written in _network_classes().items():
        own_section = _SECTION.search(written.bases)
        if own_section is not None:
            (node,) = ast.parse(written.text).body
            assert isinstance(node, ast.ClassDef)
            made = [
                (str(ast.unparse(entry.target)), ast.unparse(entry.annotation), _field(entry, text))
                for entry, text in _fields_in(node)
            ]
            kind: Any = dataclasses.make_dataclass(name, made, bases=(fields.OwnSettings,))
            kind.__doc__, kind.__module__ = ast.get_docstring(node), _HOME
            kind.section_name = own_section[1]
            kinds.append(kind)
    return tuple(kinds)


def _field(entry: ast.AnnAssign, meaning: str) -> Any:
    """Return the field that a line declares as a literal, or by a function of `fields`."""
    value = entry.value
    if not isinstance(value, ast.Call):
        return fields.setting(_literal(value), meaning)
    function = getattr(fields, ast.unparse(value.func))
    checks = {str(each.arg): _literal(each.value) for each in value.keywords}
    return function(*map(_literal, value.args), meaning, **checks)


def _literal(node: ast.expr | None) -> Any:
    assert node is not None
    if isinstance(node, ast.Name):
        return getattr(fields, node.id)
    return parse_literal(ast.unparse(node))


@cache
def meanings(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a class and of its bases, by the fields' names."""
    texts: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):
        # What a shell defines has no file.
        with suppress(OSError, SyntaxError, ValueError, TypeError, AttributeError):
            tree = parse(Path(str(sys.modules[base.__module__].__file__)))
            node = _class_in(tree, base.__name__)
            for entry, text in _fields_in(node) if node else ():
                texts[ast.unparse(entry.target)] = text
    return texts


def _fields_in(node: ast.ClassDef) -> Iterator[tuple[ast.AnnAssign, str]]:
    """Yield the fields of a class that a string stands below, and the string on one line."""
    for entry, text in pairwise(node.body):
        if (
            isinstance(entry, ast.AnnAssign)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield entry, " ".join(str(text.value.value).split())


def _class_in(tree: ast.Module, name: str) -> ast.ClassDef | None:
    nodes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return next(nodes, None)


@cache
def fact(class_path: str, name: str, default: Any = None) -> Any:
    """Return an attribute of a class of the project, or of the first of its bases that has it.

    Returns:
        The value, or its text, with the path of a name; `default` if no class has it.
    """
    queue = [class_path]
    # It grows while it is walked: as in Python's order, all bases come before their own bases.
    for path in queue:
        module, node, paths = _read_class(path)
        for entry in node.body if node else ():
            if isinstance(entry, ast.Assign | ast.AnnAssign) and entry.value is not None:
                target = entry.targets[0] if isinstance(entry, ast.Assign) else entry.target
                if ast.unparse(target) == name:
                    if isinstance(entry.value, ast.Constant):
                        return entry.value.value
                    written = ast.unparse(entry.value)
                    return paths.get(written, f"{module}.{written}")
        for base in map(ast.unparse, node.bases if node else ()):
            queue.append(paths.get(base, f"{module}.{base}"))
    return default


@cache
def _read_class(class_path: str) -> tuple[str, ast.ClassDef | None, dict[str, str]]:
    """Return the module of a class of the project, its definition, and the paths of imports."""
    module, _, class_name = class_path.rpartition(".")
    # A user's class may have the name of one of ours.
    written = _network_classes().get(class_name) if is_ours(module) else None
    if written is None:
        return module, None, {}
    # Not the whole file, whose functions take ten times as long to parse.
    tree = ast.parse(written.imports + written.text)
    paths: dict[str, str] = {}
    for line in tree.body:
        if isinstance(line, ast.ImportFrom):
            paths |= {alias.name: f"{line.module}.{alias.name}" for alias in line.names}
    return written.module, _class_in(tree, class_name), paths
