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
_ROOM = 16
"""How much longer than asked for a label may be, rather than get a number."""


def names_of(paths: Sequence[Path]) -> list[str]:
    """The shortest names that tell score files apart: their own names, or the parts of their paths that differ.

    A file that is named twice gets a number behind its second name.
    """
    parts = [_parts(path) for path in paths]
    stems = [one[-1] for one in parts]
    if len(set(stems)) == len(stems):
        return stems
    return numbered(["/".join(one) for one in _unlike(_differing(parts))])


def numbered(names: Sequence[str]) -> list[str]:
    """The names, each but the first of equal ones with its number: 'net', 'net #2'."""
    result: list[str] = []
    for name in names:
        other, number = name, 1
        while other in result:
            number += 1
            other = f"{name} #{number}"
        result.append(other)
    return result


def labels_of(names: Sequence[str], most: int) -> list[str]:
    """Names for a table or a legend: of those longer than `most` only what tells them apart, cut in the middle.

    What all long names begin or end with is left out, at separators. Labels that are alike even
    where they may be a little longer get numbers.
    """
    different = len(set(names))
    short = _without_common_parts(names, most)
    if len(set(short.values())) < different:
        short = dict(zip(names, names, strict=True))
    for width in range(most, most + _ROOM, 4):
        labels = [shorten(short[name], width) for name in names]
        if len(set(labels)) == different:
            return labels
    return numbered([shorten(name, most - len(" #99")) for name in names])


def _without_common_parts(names: Sequence[str], most: int) -> dict[str, str]:
    """Names by themselves; those longer than `most` without what all such begin or end with."""
    short = dict(zip(names, names, strict=True))
    long = [name for name in names if len(name) > most]
    if len(set(long)) < 2:
        return short
    differing = _differing([_tokens(name) for name in long])
    for name, tokens in zip(long, differing, strict=True):
        short[name] = "".join(tokens).strip(_SEPARATORS)
    return short


def _differing(names: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The names without the parts that all of them begin and end with; of each at least one part is left."""
    shortest = min(map(len, names))
    first = last = 0
    while first < shortest - 1 and len({name[first] for name in names}) == 1:
        first += 1
    while last < shortest - 1 - first and len({name[-1 - last] for name in names}) == 1:
        last += 1
    return [name[first : len(name) - last] for name in names]


def _unlike(names: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Names of equally many parts without the parts inside them that are the same in all; others as they are."""
    if len({len(name) for name in names}) > 1:
        return list(names)
    places = [index for index in range(len(names[0])) if len({name[index] for name in names}) > 1]
    return [[name[index] for index in places] or name for name in names]


def _parts(path: Path) -> list[str]:
    name = path.name.removesuffix(".gz")
    stem = name.rsplit(".", 1)[0] if name.endswith(_SUFFIXES) else name
    # A file's name may hold bytes that are no text, and outputs are text.
    parts = [*path.parts[:-1], stem or name]
    return [part.encode("utf-8", "backslashreplace").decode("utf-8") for part in parts]


def _tokens(name: str) -> list[str]:
    """The name in pieces that end with a separator: 'net-', 'seed3 ', 'lr1e-4-', 'epoch.4'.

    A number by itself belongs to the word before it: of 'lr1e-4' and 'lr1e-5', '4' and '5' would say too little.
    """
    return re.split(r"(?<=[-_./ ])(?=[^-_./ ])(?!\d+(?:[-_./ ]|$))", name)
