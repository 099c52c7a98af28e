"""Corpora named by their location: `folder:PATH` or `folder:PATH:SPLIT`.

Data that extras read are named the same way, as `LOCATED` of the extras says.

Invariant: the name contains everything that is needed to read the data, so that a config and a
command line can use data not declared in run.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from asdf.errors import UsageError
from asdf.ports import provided
from asdf.trials.label_words import Columns

FOLDER = "folder"


@dataclass(frozen=True)
class Located:
    """A parsed name.

    Attributes:
        kind: Kind of the location.
        where: Path of a folder, of shards or manifests, or name of a data set on the hub with its
            revision, if any.
        split: Name of the split; '' for everything.
        columns: Names of columns and values, given after a '?'.
    """

    kind: str
    where: str
    split: str = ""
    columns: Columns = field(default_factory=Columns)


def parse_located(name: str) -> Located | None:
    """Parse a name such as `folder:my/data:train`; return None for names of other kinds.

    Raises:
        UsageError: it has such a prefix, but no folder or data set.
    """
    kind, sign, rest = name.partition(":")
    located = provided("LOCATED")
    if not sign or (kind != FOLDER and kind not in located):
        return None
    # The whole of other names is a path, which may contain a ':'.
    has_split = kind == FOLDER or located[kind][1]
    # First, since a value after the '?' may contain a ':'.
    rest, _, query = rest.partition("?")
    where, _, split = rest.partition(":") if has_split else (rest, "", "")
    if not where or ":" in split:
        shape = f"{kind}:PATH or {kind}:PATH:SPLIT" if has_split else f"{kind}:PATH"
        if kind == "hub":
            shape = "hub:ORG/NAME or hub:ORG/NAME:SPLIT, with @REVISION after NAME"
        raise UsageError(f"{name!r}: write {shape}, followed, if needed, by ?label=COLUMN.")
    columns = _read_query(name, query)
    return Located(kind, where.rstrip("/") or "/", split, columns)


def _read_query(name: str, query: str) -> Columns:
    """Parse the text after a '?': `label=COLUMN,speaker=COLUMN,bona_fide=VALUE`.

    Raises:
        UsageError: it is malformed.
    """
    names = {}
    for word in query.split(",") if query else ():
        ours, _, theirs = word.partition("=")
        if not ours or not theirs:
            raise UsageError(
                f"{name!r}: after the '?', name the columns and the value that is bona fide: "
                "?label=COLUMN,speaker=COLUMN,bona_fide=VALUE."
            )
        names[ours] = theirs
    return Columns({k: v for k, v in names.items() if k != "bona_fide"}, names.get("bona_fide", ""))
