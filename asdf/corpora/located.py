"""Corpora that are named by where they are: `folder:PATH`, `hub:ORG/NAME`, each also with `:SPLIT`.

Invariant: the name has all that is needed to read it, so that a config and a command line name
data that nobody declared in run.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from asdf.errors import UsageError
from asdf.trials.label_words import Columns

_KINDS = ("folder", "hub")


@dataclass(frozen=True)
class Located:
    """A name taken apart.

    Attributes:
        kind: 'folder' or 'hub'.
        where: Path of a folder, or name of a data set on the hub with its revision, if any.
        split: Split of it; '' for everything.
        columns: Names of columns and values, as they stand behind a '?'.
    """

    kind: Literal["folder", "hub"]
    where: str
    split: str = ""
    columns: Columns = field(default_factory=Columns)


def parse_located(name: str) -> Located | None:
    """Return what a name such as `folder:my/data:train` means; None for names of other kinds.

    Raises:
        UsageError: it begins so, and names no folder or data set.
    """
    kind, sign, rest = name.partition(":")
    if not sign or kind not in _KINDS:
        return None
    rest, _, query = rest.partition("?")
    where, _, split = rest.partition(":")
    if not where or ":" in split:
        shape = "folder:PATH or folder:PATH:SPLIT"
        if kind == "hub":
            shape = "hub:ORG/NAME or hub:ORG/NAME:SPLIT, with @REVISION behind NAME"
        raise UsageError(f"{name!r}: write {shape}, and behind it, if needed, ?label=COLUMN.")
    columns = _read_query(name, query)
    return Located(
        "folder" if kind == "folder" else "hub", where.rstrip("/") or "/", split, columns
    )


def _read_query(
    name: str,
    query: str,
) -> Columns:
    """Read what stands behind a '?': `label=COLUMN,speaker=COLUMN,bona_fide=VALUE`.

    Raises:
        UsageError: it is malformed.
    """
    names = {}
    for word in query.split(",") if query else ():
        ours, _, theirs = word.partition("=")
        if not ours or not theirs:
            raise UsageError(
                f"{name!r}: behind the '?' stands what columns are called, and the value that is "
                "bona fide: ?label=COLUMN,speaker=COLUMN,bona_fide=VALUE."
            )
        names[ours] = theirs
    return Columns({k: v for k, v in names.items() if k != "bona_fide"}, names.get("bona_fide", ""))
