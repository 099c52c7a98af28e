"""Expansion of shard names such as `shards-{000000..000999}.tar` or `part-*.tar`.

Invariant: every named shard exists, or the missing ones are reported before anything is read;
shards found by a `*` are sorted by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from asdf.errors import AsdfError, UsageError
from asdf.text import quoted_and_more

_SHOWN = 5
# A mistyped range must not use the memory for the names of this many files.
_MOST = 1_000_000
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_WILD = re.compile(r"[{*\[]")


class Shards(NamedTuple):
    """Shards below a folder.

    Attributes:
        folder: Folder that contains all shards.
        names: Paths relative to it.
    """

    folder: Path
    names: list[str]


def find_shards(pattern: str, folder: Path, of_folder: Callable[[Path], list[str]]) -> Shards:
    """Return the shards of a pattern.

    Args:
        pattern: Path, with `{000..099}`, `{de,en}` or `*` for several shards.
        folder: Folder that the pattern is relative to.
        of_folder: Function that returns the names of the shards in a folder.

    Raises:
        AsdfError: shards do not exist, or there are none.
        UsageError: a range is malformed.
    """
    path = folder / Path(pattern).expanduser()
    parts = str(path).split("/")
    # The name of the folder that the pattern is relative to is not expanded.
    given = len(parts) - len(pattern.split("/"))
    wild = [number for number, part in enumerate(parts) if number >= given and _WILD.search(part)]
    if not wild:
        if path.is_dir():
            return Shards(path, of_folder(path))
        return Shards(path.parent, _existing(path.parent, [path.name]))
    root = Path("/".join(parts[: wild[0]]) or ("/" if str(path).startswith("/") else "."))
    names: list[str] = []
    for name in _expand("/".join(parts[wild[0] :])):
        if "*" not in name and "[" not in name:
            names.append(name)
        else:
            names += sorted(found.relative_to(root).as_posix() for found in root.glob(name))
    if not names:
        raise AsdfError(f"{root}: nothing matches {pattern}. Check the path.")
    # Patterns such as {a*,ab*} overlap, and a shard that is read twice would repeat its trials.
    return Shards(root, _existing(root, list(dict.fromkeys(names))))


def _existing(root: Path, names: list[str]) -> list[str]:
    missing = [name for name in names if not (root / name).exists()]
    if missing:
        raise AsdfError(
            f"{root}: {len(missing)} of the {len(names)} named shards do not exist: "
            f"{quoted_and_more(missing, _SHOWN)}. Check the path, or leave them out of the name."
        )
    return names


def _expand(pattern: str) -> Iterator[str]:
    """Yield the expansions of a pattern with braces, in the order of its numbers and words."""
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    for word in _words(match.group(1), pattern):
        for rest in _expand(pattern[match.end() :]):
            yield pattern[: match.start()] + word + rest


def _words(inside: str, pattern: str) -> list[str]:
    limits = _RANGE.fullmatch(inside)
    if limits is None:
        if "," not in inside:
            raise UsageError(
                f"{pattern!r}: braces must hold a range or words, such as {{000000..000999}} or "
                "{de,en}."
            )
        return inside.split(",")
    first, last = limits.groups()
    count = int(last) - int(first) + 1
    if not 0 < count <= _MOST:
        raise UsageError(
            f"{pattern!r}: the range {{{inside}}} names {max(count, 0):,} shards; 1 to {_MOST:,} "
            "are possible."
        )
    # As in shells, a leading zero means numbers of one width.
    width = len(first) * first.startswith("0")
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
