"""The types of settings in words."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

_WORDS = {
    bool: ("True or False", "True or False"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    type(None): ("None", "None"),
}


def takes_string(annotation: Any) -> bool:
    """Whether a string can be a value of this type."""
    if get_origin(annotation) in (Union, UnionType):
        return any(takes_string(member) for member in get_args(annotation))
    if get_origin(annotation) is Literal:
        return any(isinstance(choice, str) for choice in get_args(annotation))
    return annotation is str


def describe(annotation: Any) -> str:
    """The values of a type in words: "a whole number, 'best' or 'last'"."""
    return _listed(_alternatives(annotation, plural=False))


def _alternatives(annotation: Any, *, plural: bool) -> list[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        return [_WORDS[annotation][plural]]
    if origin is tuple:
        number = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        return [f"a tuple of {number}{_listed(_alternatives(arguments[0], plural=True))}"]
    if origin is Literal:
        return [repr(choice) for choice in arguments]
    return [part for member in arguments for part in _alternatives(member, plural=plural)]


def _listed(parts: list[str]) -> str:
    return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
