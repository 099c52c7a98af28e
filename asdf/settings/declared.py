"""Sections of settings that a user's classes declare for themselves.

A class that a setting names may have settings of its own: a dataclass derived from `OwnSettings`,
as its attribute `own_settings`. They are written, checked, explained and recorded like all others:

    @dataclass
    class TripletSettings(OwnSettings, section_name="triplet"):
        "What the triplet loss needs."

        margin: float = setting(0.2, "the margin", at_least=0)

    class Triplet(Loss):
        own_settings = TripletSettings

Invariant: reading a declaration only imports its module, which a setting of this very config names.
A module whose text shows no declaration is not even imported.
"""

from __future__ import annotations

import inspect
import re
import sys
import tokenize
from collections.abc import Iterable
from dataclasses import is_dataclass, make_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.settings.catalogue import Known, class_settings, named_classes, section_types, settings_of
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import find_named, module_file
from asdf.settings.config_files import Assignment
from asdf.settings.fields import OwnSettings, setting
from asdf.settings.mistakes import Collector, Complaint, shortened
from asdf.settings.value_checks import check_value, is_supported

ATTRIBUTE = "own_settings"
ARGUMENT_SECTIONS = {"network.optimizer": "optimizer"}
"""Sections of settings whose classes need no declaration, made of constructor arguments."""

RESERVED = (
    "apply_each",
    "explain",
    "load_settings",
    "plain",
    "read_configs",
    "read_points",
    "save",
    "section_of",
    "snapshot",
)
"""Methods of `Settings` and `Sections` that a section of the same name would hide."""

# What follows `import` and `from` in a line: modules, and names, which do no harm.
_IMPORTS = re.compile(r"(?:^|[:;])\s*(?:from|import)\s+(.*)$", re.MULTILINE)
# Arguments that the project itself passes to a constructor.
_SET_BY_US = {"params", "lr", "weight_decay", "fused", "capturable", "differentiable"}


def declared_sections(
    assignments: Iterable[Assignment], folder: Path | None, collector: Collector
) -> dict[str, type[OwnSettings]]:
    """Return the sections declared by the classes that `assignments` name, by section name.

    Args:
        folder: Folder of the recipe with the user's modules.
        collector: Collector of mistakes in declarations, at the line that names the class.
    """
    assignments = list(assignments)
    ours = section_types()
    # Any class may declare a section that the project does not have.
    has_unknown = any(written.target.partition(".")[0] not in ours for written in assignments)
    declared: dict[str, type[OwnSettings]] = {}
    for assignment in assignments:
        if assignment.target in ARGUMENT_SECTIONS:
            # The last assignment decides which class the arguments belong to.
            declared.pop(ARGUMENT_SECTIONS[assignment.target], None)
        named: list[str] = []
        if assignment.target in class_settings() and not assignment.broken:
            value = assignment.value
            # A value of the wrong type is reported elsewhere.
            for text in value if isinstance(value, tuple | list) else (value,):
                if isinstance(text, str) and "." in text:
                    named += named_classes(assignment.target, text)
        # Ours declare nothing.
        for class_path in (path for path in named if not is_ours(path)):
            about = f"{assignment.target} = {shortened(class_path)}"
            with collector.collecting(assignment.location, about):
                try:
                    kind = _declaration(class_path, assignment.target, folder, has_unknown)
                except AsdfError as error:
                    collector.add(assignment.location, str(error))
                    continue
                if kind is not None:
                    _check_section(kind, declared.get(kind.section_name))
                    declared[kind.section_name] = kind
    return declared


def declared_by(class_path: str, setting: str, folder: Path) -> type[OwnSettings] | None:
    """Return the section that a class in `folder` declares; None if it declares none.

    Args:
        setting: Setting that names the class.

    Raises:
        AsdfError: the class does not exist, importing its module fails, or its declaration has a
            mistake.
    """
    try:
        kind = _declaration(class_path, setting, folder, has_unknown=True)
        if kind is not None:
            _check_section(kind, None)
    except Complaint as complaint:
        raise AsdfError(f"{setting} = {class_path}: {complaint}") from None
    return kind


def _declaration(
    class_path: str, setting: str, folder: Path | None, has_unknown: bool
) -> type[OwnSettings] | None:
    """Return a class's declared section, importing its module unless its text shows none.

    Args:
        has_unknown: Whether the config sets anything in a section outside the project's.
    """
    of_arguments = ARGUMENT_SECTIONS.get(setting)
    if not (has_unknown or of_arguments or _may_declare(class_path, folder)):
        return None
    try:
        named = find_named(class_path, folder, setting)
    except AsdfError:
        # A module outside the folder may not be needed; it is reported when it is used.
        if module_file(class_path.rpartition(".")[0], folder) is None:
            return None
        raise
    kind = getattr(named, ATTRIBUTE, None)
    if kind is not None:
        if not (isinstance(kind, type) and issubclass(kind, OwnSettings) and is_dataclass(kind)):
            raise Complaint(
                f"its {ATTRIBUTE} must be a dataclass derived from asdf.settings.OwnSettings, not "
                f"{shortened(repr(kind))}"
            )
        return kind
    if of_arguments and isinstance(named, type):
        return section_of_arguments(named, of_arguments)
    return None


def _may_declare(class_path: str, folder: Path | None) -> bool:
    """Whether a class's module must be imported to know what the class declares."""
    module_name, _, class_name = class_path.rpartition(".")
    file = module_file(module_name, folder)
    if file is None:
        # Elsewhere, a declaration is known only by importing the module. A missing module is
        # reported by the code that uses it.
        # find_spec of a submodule would import its package.
        package = module_name.partition(".")[0]
        return package in sys.modules or find_spec(package) is not None
    try:
        with tokenize.open(file) as module:  # in the encoding that it states
            text = module.read()
    except (OSError, SyntaxError, ValueError):
        # The code that needs the class reports this.
        return False
    name = re.escape(class_name)
    if not re.search(rf"^\s*class {name}\b", text, re.MULTILINE):
        # It comes from elsewhere or does not exist; the code that needs it reports this.
        return re.search(rf"\b{name}\b|import \*", text) is not None
    if ATTRIBUTE in text:
        return True
    # A module in the folder may hold a base of the class; a relative import is of the folder
    # itself, which need not have an __init__.py.
    imported = re.findall(r"[.\w]+", " ".join(_IMPORTS.findall(text)))
    return any(word[0] == "." or module_file(word.partition(".")[0], folder) for word in imported)


def _check_section(kind: type[OwnSettings], other: type[OwnSettings] | None) -> None:
    """Check that a declared section does not conflict with the others.

    Raises:
        Complaint: it does.
    """
    name = kind.section_name
    described = f"{kind.__module__}.{kind.__qualname__}"
    if not name.isidentifier():
        raise Complaint(
            f"{described} does not name its section: write class {kind.__name__}(OwnSettings, "
            'section_name="my_section")'
        )
    # `Sections` has a field 'declared'.
    if name in section_types() or name in ("declared", *RESERVED):
        what = "method of the settings" if name in RESERVED else "built-in section"
        raise Complaint(f"the section of {described} has the name of a {what}, '{name}': rename it")
    if other is not None and other is not kind and _settings_in(other) != _settings_in(kind):
        raise Complaint(
            f"{described} and {other.__module__}.{other.__qualname__} both declare section '{name}'"
        )
    for known in _settings_in(kind).values():
        where = f"{known.name} of {described}"
        if not known.meaning:
            raise Complaint(f"{where} is not declared with setting(default, meaning, ...)")
        if not is_supported(known.annotation):
            raise Complaint(
                f"{where} has type {known.annotation}: settings are bool, int, float, str, None, "
                "Literal, tuples of these, or several of them with |"
            )
        try:
            check_value(known, known.default)
        except Complaint as complaint:
            raise Complaint(f"the default of {where} is invalid: {complaint}") from None


def _settings_in(kind: type[OwnSettings]) -> dict[str, Known]:
    try:
        # This evaluates the text of annotations, which may raise anything.
        return settings_of(kind.section_name, kind)
    except Exception as error:
        raise Complaint(f"the types of {kind.__qualname__} cannot be read: {error}") from None


def section_of_arguments(named: type, section: str) -> type[OwnSettings]:
    """Return a section made of the arguments with plain defaults of a class's constructor.

    Raises:
        Complaint: its arguments cannot be read.
    """
    try:
        parameters = inspect.signature(named).parameters.values()
    except (TypeError, ValueError):
        raise Complaint("its arguments cannot be read") from None
    entries = []
    for parameter in parameters:
        kind = _kind_of_default(parameter.default)
        if kind is None or parameter.name in _SET_BY_US:
            continue
        meaning = f"argument of {named.__module__}.{named.__qualname__}"
        entries.append((parameter.name, kind, setting(parameter.default, meaning)))
    made = make_dataclass(
        named.__name__, entries, bases=(OwnSettings,), namespace={"section_name": section}
    )
    made.__doc__ = f"Arguments of {named.__qualname__}."
    made.__module__ = named.__module__
    return made


def _kind_of_default(default: Any) -> Any:
    """Return the type of a setting with this default; None if it is not a plain value."""
    if default is inspect.Parameter.empty:
        return None
    if default is None:
        # Such an argument says nothing of the type that it takes.
        return bool | int | float | str | None
    # An argument with a default of 0 usually takes any number.
    if isinstance(default, int | float) and not isinstance(default, bool):
        return int | float
    if isinstance(default, bool | str):
        return type(default)
    if isinstance(default, tuple) and all(isinstance(value, int | float) for value in default):
        return tuple[float, ...]
    return None
