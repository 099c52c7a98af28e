"""Labels of systems: short enough for a table, and distinct.

Invariant: names that differ get labels that differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from asdf.text import numbered, shorten

_SEPARATORS = "-_./ "
# Characters by which a label may exceed the requested length before it gets a number.
_MORE_ROOM = 16
_NUMBER_ROOM = len(" #99")


def labels_of(names: Sequence[str], max_length: int) -> list[str]:
    """Return names for a table or a legend.

    Names longer than `max_length` are reduced to the parts in which they differ, split at
    separators, and cut in the middle. Labels that remain equal after a few more characters get
    numbers.
    """
    different = len(set(names))
    short = _without_common_parts(names, max_length)
    # Without their common parts, two names may have become equal.
    if len(set(short.values())) < different:
        short = _by_themselves(names)
    # A slightly longer label beats a number, which says nothing about the system.
    for length in range(max_length, max_length + _MORE_ROOM, 4):
        labels = [shorten(short[name], length) for name in names]
        if len(set(labels)) == different:
            return labels
    shortest = max_length - _NUMBER_ROOM
    return numbered([shorten(name, shortest) for name in names])


def differing_parts(names: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return names, given in parts, without their common parts; each keeps at least one part."""
    shorter = _without_common_ends(names)
    if len(set(map(len, shorter))) > 1:
        return shorter
    differing: list[list[str]] = [[] for _ in shorter]
    for index in range(len(shorter[0])):
        if _part_is_equal(shorter, index):
            continue
        for name, parts in zip(shorter, differing, strict=True):
            parts.append(name[index])
    # Equal names have no differing part and stay whole.
    return list(differing) if differing[0] else shorter


def _by_themselves(names: Sequence[str]) -> dict[str, str]:
    return dict(zip(names, names, strict=True))


def _without_common_parts(names: Sequence[str], max_length: int) -> dict[str, str]:
    """Return each name's label: long names, or all names, without the parts that they share."""
    short = _by_themselves(names)
    long = [name for name in names if len(name) > max_length]
    # A single long name has nothing in common with another: it is cut.
    if len(set(long)) < 2:
        return short
    # Next to whole short names, a part of a long name would look like another kind of name.
    tokens = list(map(_tokens, names))
    share_an_end = _part_is_equal(tokens, 0) or _part_is_equal(tokens, -1)
    reduced = names if share_an_end else long
    different = _without_common_ends(list(map(_tokens, reduced)))
    for name, remaining in zip(reduced, different, strict=True):
        label = "".join(remaining)
        short[name] = label.strip(_SEPARATORS)
    return short


def _without_common_ends(names: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the names without common parts at either end; each keeps at least one part."""
    shortest = min(map(len, names))
    removable = shortest - 1
    first = 0
    while first < removable and _part_is_equal(names, first):
        first += 1
    last = 0
    while last < removable - first and _part_is_equal(names, -1 - last):
        last += 1
    return [name[first : len(name) - last] for name in names]


def _part_is_equal(names: Sequence[Sequence[str]], index: int) -> bool:
    first = names[0][index]
    return all(name[index] == first for name in names)


def _tokens(name: str) -> list[str]:
    """Return the name split after separators: 'net-', 'seed3 ', 'lr1e-4-', 'epoch.4'.

    A number stays with the word before it: in 'lr1e-4' and 'lr1e-5', the parts '4' and '5' alone
    would say too little.
    """
    return re.split(r"(?<=[-_./ ])(?=[^-_./ ])(?!\d+(?:[-_./ ]|$))", name)
