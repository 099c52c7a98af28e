"""Corpora that are named by where they are: `folder:PATH`, `hub:ORG/NAME`, each also with `:SPLIT`.

Shards and manifests of others are named the same way: `webdataset:PATH`, `shar:FOLDER`,
`lhotse:CUTS`, `datasets:FOLDER:SPLIT`.

Invariant: the name has all that is needed to read it, so that a config and a command line name
data that nobody declared in run.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from asdf.errors import UsageError
from asdf.trials.label_words import Columns

Kind = Literal["folder", "hub", "webdataset", "shar", "lhotse", "datasets"]
_KINDS = get_args(Kind)
# Of these the whole name is a path, in which a ':' may stand.
_WHOLE = ("webdataset", "shar", "lhotse")


@dataclass(frozen=True)
class Located:
    """A name taken apart.

    Attributes:
        kind: Kind of what is named.
        where: Path of a folder, of shards or manifests, or name of a data set on the hub with its
            revision, if any.
        split: Split of it; '' for everything.
        columns: Names of columns and values, as they stand behind a '?'.
    """

    kind: Kind
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
    scheme, sign, below = rest.rpartition("://")
    where, _, split = (below, "", "") if kind in _WHOLE else below.partition(":")
    where = f"{scheme}{sign}{where}" if where else ""
    if not where or ":" in split:
        shape = f"{kind}:PATH" if kind in _WHOLE else f"{kind}:PATH or {kind}:PATH:SPLIT"
        if kind == "hub":
            shape = "hub:ORG/NAME or hub:ORG/NAME:SPLIT, with @REVISION behind NAME"
        raise UsageError(f"{name!r}: write {shape}, and behind it, if needed, ?label=COLUMN.")
    columns = _read_query(name, query)
    return Located(cast(Kind, kind), where.rstrip("/") or "/", split, columns)


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
