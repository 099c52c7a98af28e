"""The types of settings in words."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

# In the singular and in the plural.
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
    # A union: each member in its own words.
    words = []
    for member in arguments:
        words += _alternatives(member, plural=plural)
    return words


def _join_words(words: list[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"
