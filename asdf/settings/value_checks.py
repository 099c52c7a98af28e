"""Checks of values against their settings, and descriptions of types in words.

Invariant: every check of a single value is declared in `sections`, as its type or its metadata;
relations between settings are in `relations.py`. A value is returned in one form that later code
can rely on: a tuple for a list, a float for an int if the setting is a float.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from asdf.removed import class_has_left
from asdf.settings.catalogue import Known
from asdf.settings.front_end_values import check_parts, check_targets
from asdf.settings.mistakes import Complaint, shortened
from asdf.text import closest

# Singular and plural.
_WORDS = {
    bool: ("True or False", "True or False"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    type(None): ("None", "None"),
}


def is_union(annotation: Any) -> bool:
    """Whether the type is written `A | B`."""
    return get_origin(annotation) in (Union, UnionType)


def is_supported(annotation: Any) -> bool:
    """Whether values of this type can be written in a config and checked."""
    if annotation in _WORDS:
        return True
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return True
    if get_origin(annotation) is tuple:
        return bool(arguments) and all(map(is_supported, (a for a in arguments if a is not ...)))
    return is_union(annotation) and all(map(is_supported, arguments))


def takes_string(annotation: Any) -> bool:
    """Whether a string can be a value of this type."""
    if is_union(annotation):
        return any(map(takes_string, get_args(annotation)))
    if get_origin(annotation) is Literal:
        return any(isinstance(choice, str) for choice in get_args(annotation))
    return annotation is str


def describe(annotation: Any) -> str:
    """Describe the values of a type: "a whole number, 'best' or 'last'"."""
    return _join_words(_alternatives(annotation, plural=False))


def _alternatives(annotation: Any, *, plural: bool) -> list[str]:
    if annotation in _WORDS:
        singular_word, plural_word = _WORDS[annotation]
        return [plural_word if plural else singular_word]
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return [repr(choice) for choice in arguments]
    if get_origin(annotation) is tuple:
        elements = _join_words(_alternatives(arguments[0], plural=True))
        if arguments[-1] is Ellipsis:
            return [f"a tuple of {elements}"]
        return [f"a tuple of {len(arguments)} {elements}"]
    # A union: describe each member.
    words = []
    for member in arguments:
        words += _alternatives(member, plural=plural)
    return words


def _join_words(words: list[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"


# With what Python makes of \n and the like, unless a backslash is doubled.
OF_WINDOWS = re.compile(r"[A-Za-z]:[\\/\x00-\x1f]")
"""The beginning of a Windows path, which elsewhere would name a new folder."""
# Where the original ASDF has its networks.
_ORIGINAL = "asdf.src.networks.architectures."
_BOUNDS = {
    "at_least": (operator.ge, "at least"),
    "above": (operator.gt, "above"),
    "at_most": (operator.le, "at most"),
}
_KIND_WORDS = {int: "a whole number", float: "a float", str: "a string"}


def check_value(known: Known, value: Any) -> Any:
    """Return `value` in the form of its setting.

    Raises:
        Complaint: the value has the wrong type, is out of range, or fails the setting's `check`.
    """
    fitted = _fit(known.annotation, value)
    for number in fitted if isinstance(fitted, tuple) else (fitted,):
        # Words among numbers, such as 'best' among epochs, have no range.
        if _is(number, int | float):
            for bound, (fits, words) in _BOUNDS.items():
                limit = known.metadata[bound]
                if limit is not None and not fits(number, limit):
                    raise Complaint(f"must be {words} {limit:,} {known.metadata['unit']}".rstrip())
    if fitted is None:
        return None
    if known.metadata["check"] == "class_path":
        if isinstance(fitted, str) and fitted.startswith(_ORIGINAL):
            fitted = f"asdf.networks.{fitted.removeprefix(_ORIGINAL)}"
        _check_class_path(fitted, known.metadata["names"])
    check = _CHECKS.get(known.metadata["check"])
    if check is not None:
        check(fitted)
    return fitted


def _fit(annotation: Any, value: Any) -> Any:
    if is_union(annotation):
        return _fit_union(annotation, value)
    if get_origin(annotation) is tuple:
        return _fit_tuple(annotation, value)
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        # 1 == True, so the type must be equal as well.
        if any(value == choice and type(value) is type(choice) for choice in choices):
            return value
        raise Complaint(f"expected {describe(annotation)}{_hint(annotation, value)}")
    # A float setting accepts 3; an int setting rejects 3.0, which may be a mistake.
    if annotation is float and _is(value, int):
        try:
            return float(value)
        except OverflowError:
            raise Complaint("the number is out of range") from None
    if not _is(value, annotation):
        raise _wrong_kind(annotation, value, _hint(annotation, value))
    # No literal is infinite or NaN, but a recipe's code may set such a value.
    if annotation is float and not math.isfinite(value):
        raise Complaint("expected a finite number")
    return value


def _is(value: Any, kind: Any) -> bool:
    """Whether `value` is of this kind; unlike in Python, True is not an int."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind)


def _wrong_kind(annotation: Any, value: Any, hint: str = "") -> Complaint:
    kind = _KIND_WORDS.get(type(value), f"a {type(value).__name__}")
    if value is None or isinstance(value, bool):
        kind = repr(value)
    return Complaint(f"expected {describe(annotation)}, not {kind}{hint}")


def _fit_union(annotation: Any, value: Any) -> Any:
    members = get_args(annotation)
    # Use the first that fits, since the members of a union exclude each other.
    for member in members:
        try:
            return _fit(member, value)
        except Complaint:
            continue
    others = [member for member in members if member is not type(None)]
    member = others[0]
    is_tuple = get_origin(member) is tuple
    if len(others) == 1 and (is_tuple or (isinstance(member, type) and _is(value, member))):
        # Its own complaint is clearer than "expected this or None"; a tuple's names the unsuitable
        # element.
        _fit(member, value)
    hints = [_hint(member, value) for member in others]
    raise _wrong_kind(annotation, value, next(filter(None, hints), ""))


def _fit_tuple(annotation: Any, value: Any) -> tuple[Any, ...]:
    kinds = get_args(annotation)
    of_any_length = kinds[-1] is Ellipsis
    if not isinstance(value, tuple | list):
        hint = ""
        with suppress(Complaint):
            if of_any_length:
                _fit(kinds[0], value)
                # (0) is a number in brackets, a common mistake.
                hint = f"; a tuple of one value is written ({shortened(repr(value))},)"
        raise _wrong_kind(annotation, value, hint)
    if of_any_length:
        kinds = (kinds[0],) * len(value)
    # Only a tuple of fixed length reaches this line with another length.
    if len(kinds) != len(value):
        raise Complaint(f"expected {describe(annotation)}, not {len(value)}")
    fitted = []
    for position, (kind, element) in enumerate(zip(kinds, value, strict=True), start=1):
        try:
            fitted.append(_fit(kind, element))
        except Complaint as complaint:
            which = f"value {position} ({shortened(repr(element))})"
            raise Complaint(f"{which}: {complaint.text}") from None
    return tuple(fitted)


def _hint(annotation: Any, value: Any) -> str:
    if annotation is bool and _is(value, int) and value in (0, 1):
        return f"; write {bool(value)}"
    if annotation is int and _is(value, float) and math.isfinite(value) and value == int(value):
        return f"; write {int(value)}"
    if annotation is str and _is(value, int):
        return f"; write '{shortened(str(value))}'"
    if annotation is bool and isinstance(value, str) and value.capitalize() in ("True", "False"):
        return f"; write {value.capitalize()}"
    if get_origin(annotation) is Literal and isinstance(value, str):
        near = closest(value, filter(lambda choice: isinstance(choice, str), get_args(annotation)))
        return f"; the nearest is '{near}'" if near else ""
    return ""


def _check_class_path(value: str | tuple[str, ...], names: Mapping[str, str]) -> None:
    form = "'package.module.Class'"
    for path in _texts_in(value):
        parts = path.split(".")
        if path in names or (len(parts) > 1 and all(map(str.isidentifier, parts))):
            continue
        if class_has_left(path):
            raise Complaint(class_has_left(path))
        if not names:
            raise Complaint(f"'{shortened(path)}' is not a class path; it is written {form}")
        near = closest(path, names)
        hint = f"; the nearest is '{near}'" if near else ""
        listed = ", ".join(map(repr, names))
        raise Complaint(
            f"'{shortened(path)}' is neither one of {listed} nor a class path {form}{hint}"
        )
    _check_unique(_texts_in(value))


def _check_unique(value: tuple[Any, ...]) -> None:
    seen = set()
    for element in value:
        if element in seen:
            raise Complaint(f"{shortened(repr(element))} occurs twice")
        seen.add(element)


def _check_not_empty(value: str) -> None:
    if not value:
        raise Complaint("must not be empty")


def _check_path(value: str | tuple[str, ...]) -> None:
    for path in _texts_in(value):
        if not path.strip():
            raise Complaint("the path is empty; write '.' for the current folder")
        if os.name != "nt" and OF_WINDOWS.match(path):
            raise Complaint("is a Windows path; write one of this system, as /mnt/c/... in WSL")
        # Surrogates are bytes that are not UTF-8.
        if "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
            raise Complaint("the path contains a character that is not allowed in file names")


def _texts_in(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)


_CHECKS: dict[str, Callable[[Any], None]] = {
    "unique": _check_unique,
    "not_empty": _check_not_empty,
    "path": _check_path,
    "trained_parts": check_parts,
    "lora_targets": check_targets,
}
