"""Names of systems: short enough for a table, and no two alike.

Invariant: whatever is left out of a name, names that differ stay different.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from asdf.text import shorten

_SUFFIXES = (".txt", ".tsv", ".csv", ".scores")
_SEPARATORS = "-_./ "
# How much longer than requested a label may be, rather than get a number.
_MORE_ROOM = 16
_NUMBER_ROOM = len(" #99")


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the shortest names that distinguish score files.

    They are the names of the files, or the parts of their paths that differ. A file that is named
    twice gets a number behind its second name.
    """
    parts = list(map(_path_parts, paths))
    stems = [file_parts[-1] for file_parts in parts]
    if len(set(stems)) == len(stems):
        return stems
    distinct = _without_equal_parts(_without_common_ends(parts))
    return numbered(list(map("/".join, distinct)))


def numbered(names: Sequence[str]) -> list[str]:
    """Return the names, each but the first of equal ones with its number: 'net', 'net #2'."""
    result: list[str] = []
    for name in names:
        other = name
        number = 1
        # Not a count of equal names: a system may itself be called 'net #2'.
        while other in result:
            number += 1
            other = f"{name} #{number}"
        result.append(other)
    return result


def labels_of(names: Sequence[str], max_length: int) -> list[str]:
    """Return names for a table or a legend.

    Names longer than `max_length` are reduced to the parts in which they differ, at separators, and
    cut in the middle. Labels that are alike even where they may be a little longer get numbers.
    """
    different = len(set(names))
    short = _without_common_parts(names, max_length)
    # Without their common parts, two names may have become alike.
    if len(set(short.values())) < different:
        short = _by_themselves(names)
    # Rather a little longer than a number, which says nothing about the system.
    for length in range(max_length, max_length + _MORE_ROOM, 4):
        labels = [shorten(short[name], length) for name in names]
        if len(set(labels)) == different:
            return labels
    shortest = max_length - _NUMBER_ROOM
    return numbered([shorten(name, shortest) for name in names])


def _by_themselves(names: Sequence[str]) -> dict[str, str]:
    return dict(zip(names, names, strict=True))


def _without_common_parts(names: Sequence[str], max_length: int) -> dict[str, str]:
    """Return name -> label: long names without what they share with all, or all long ones."""
    short = _by_themselves(names)
    long = [name for name in names if len(name) > max_length]
    # A single long name has nothing in common with another: it is cut.
    if len(set(long)) < 2:
        return short
    # Next to whole short names, what is left of long ones would be read as another kind of name.
    tokens = list(map(_tokens, names))
    share_an_end = _part_is_equal(tokens, 0) or _part_is_equal(tokens, -1)
    reduced = names if share_an_end else long
    different = _without_common_ends(list(map(_tokens, reduced)))
    for name, remaining in zip(reduced, different, strict=True):
        label = "".join(remaining)
        short[name] = label.strip(_SEPARATORS)
    return short


def _without_common_ends(names: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the names without the parts that all begin or end with; each keeps one at least."""
    shortest = min(map(len, names))
    removable = shortest - 1
    first = 0
    while first < removable and _part_is_equal(names, first):
        first += 1
    last = 0
    while last < removable - first and _part_is_equal(names, -1 - last):
        last += 1
    return [name[first : len(name) - last] for name in names]


def _without_equal_parts(names: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return names without the inner parts that are equal in all, if all have as many parts."""
    if len(set(map(len, names))) > 1:
        return list(names)
    differing: list[list[str]] = [[] for _ in names]
    for index in range(len(names[0])):
        if _part_is_equal(names, index):
            continue
        for name, parts in zip(names, differing, strict=True):
            parts.append(name[index])
    # Equal names have no part that differs, and stay whole.
    return list(differing) if differing[0] else list(names)


def _part_is_equal(names: Sequence[Sequence[str]], index: int) -> bool:
    first = names[0][index]
    return all(name[index] == first for name in names)


def _path_parts(path: Path) -> list[str]:
    """Return the folders of a path and the name of its file without the suffix of a score file."""
    name = path.name.removesuffix(".gz")
    stem = name
    if name.endswith(_SUFFIXES):
        stem, _, _ = name.rpartition(".")
    parts = [*path.parts[:-1], stem or name]
    # A file's name may hold bytes that are no text, and outputs are text.
    return [part.encode("utf-8", "backslashreplace").decode("utf-8") for part in parts]


def _tokens(name: str) -> list[str]:
    """Return the name in pieces that end with a separator: 'net-', 'seed3 ', 'lr1e-4-', 'epoch.4'.

    A number by itself belongs to the word before it: in 'lr1e-4' and 'lr1e-5', the parts '4' and
    '5' alone would say too little.
    """
    return re.split(r"(?<=[-_./ ])(?=[^-_./ ])(?!\d+(?:[-_./ ]|$))", name)
