"""Each option of each command and each setting of each section is read by something.

An option counts as read where an attribute is taken from a variable of its dataclass: an argument
with that annotation, what `COMMAND.read` returns, or `self`. A setting counts as read in a file
that names its section or the section's class, and takes an attribute of the setting's name, or
where a back end lists it among its sizes.
"""

import ast
import importlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, make_dataclass
from functools import cache
from pathlib import Path

import pytest

from asdf.__main__ import COMMANDS, module_name
from asdf.commands.options import option
from asdf.settings.catalogue import section_types
from asdf.settings.fields import setting
from tests.sources import FILES, ROOT, is_command, parse

ALL_COMMANDS = tuple(COMMANDS)


def reads_in(node: ast.AST, name: str) -> set[str]:
    """Return the attributes that are taken from a variable."""
    read = set()
    for inner in ast.walk(node):
        if not (isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Load)):
            continue
        if isinstance(inner.value, ast.Name) and inner.value.id == name:
            read.add(inner.attr)
    return read


def options_read(tree: ast.Module, own: str) -> Iterator[tuple[str, str]]:
    """Yield the dataclass and the option of each read in a module.

    Args:
        own: Dataclass that the module's `COMMAND.read` returns.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from ((node.name, name) for name in reads_in(node, "self"))
        if isinstance(node, ast.FunctionDef):
            for argument in node.args.args:
                if isinstance(argument.annotation, ast.Name):
                    for name in reads_in(node, argument.arg):
                        yield argument.annotation.id, name
            for inner in ast.walk(node):
                if isinstance(inner, ast.Assign) and ast.unparse(inner.value).startswith(
                    "COMMAND.read("
                ):
                    yield from ((own, name) for name in reads_in(node, inner.targets[0].id))


@cache
def all_options_read() -> set[tuple[str, str]]:
    read = set()
    own = {}
    for command in ALL_COMMANDS:
        module = importlib.import_module(module_name(command))
        own[Path(module.__file__)] = module.COMMAND.options.__name__
    for path in FILES:
        if not (is_command(path) or "extras" in path.parts):
            continue
        read.update(options_read(parse(path), own.get(path, "")))
    return read


def unread_options(options: type, read: set[tuple[str, str]]) -> list[str]:
    """Return the fields of a dataclass of options that no variable of it or of a base is asked."""
    kinds = [kind.__name__ for kind in options.__mro__]
    names = [one.name for one in fields(options)]
    return [name for name in names if not any((kind, name) in read for kind in kinds)]


def words_of(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the attributes that a file reads, and all names that stand in it."""
    attributes = set()
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            named.add(node.attr)
            if isinstance(node.ctx, ast.Load):
                attributes.add(node.attr)
        if isinstance(node, ast.Name):
            named.add(node.id)
        if isinstance(node, ast.arg):
            named.add(node.arg)
        if isinstance(node, ast.alias):
            named.add(node.name)
        # A back end lists the settings that it takes.
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "size_settings":
            attributes.update(ast.literal_eval(node.value) or ())
            named.add("back_end")
        # A class declares its settings in a section.
        if isinstance(node, ast.keyword) and node.arg == "section_name":
            named.add(getattr(node.value, "value", ""))
    return attributes, named


@cache
def files_words() -> list[tuple[set[str], set[str]]]:
    sections = ROOT / "asdf" / "settings" / "sections"
    paths = [*(ROOT / "asdf").rglob("*.py"), *(ROOT / "recipes").glob("*/*.py")]
    return [words_of(parse(path)) for path in sorted(paths) if sections not in path.parents]


def unread_settings(section: str, kind: type, words: list[tuple[set[str], set[str]]]) -> list[str]:
    """Return the settings that no file reads which names their section."""
    names = {section, *(base.__name__ for base in kind.__mro__ if is_dataclass(base))}
    about_it = [attributes for attributes, named in words if names & named]
    read = set().union(*about_it)
    return [one.name for one in fields(kind) if one.name not in read]


def test_each_option_is_read() -> None:
    read = all_options_read()
    unread = {}
    for command in ALL_COMMANDS:
        options = importlib.import_module(module_name(command)).COMMAND.options
        if names := unread_options(options, read):
            unread[command] = names
    assert unread == {}


def test_each_setting_is_read() -> None:
    words = files_words()
    unread = {}
    for section, kind in section_types().items():
        if names := unread_settings(section, kind, words):
            unread[section] = names
    assert unread == {}


@pytest.mark.parametrize("command", ["evaluate", "score", "serve"])
def test_an_option_that_nothing_reads_is_found(command: str) -> None:
    options = importlib.import_module(module_name(command)).COMMAND.options
    more = [("colour", str, option("the colour of the table", default="red"))]
    # A name that other classes have is no excuse.
    more.append(("sweep", str, option("values of a setting", default="")))
    coloured = make_dataclass("Coloured", more, bases=(options,), frozen=True, kw_only=True)
    assert unread_options(coloured, all_options_read()) == ["colour", "sweep"]


def test_a_setting_that_nothing_reads_is_found() -> None:
    kind = section_types()["network"]
    more = [("fancy_number", int, setting(1, "a number"))]
    fancy = make_dataclass(kind.__name__, more, bases=(kind,))
    assert unread_settings("network", fancy, files_words()) == ["fancy_number"]
