"""Corpora named by their location: `folder:PATH`, `hub:ORG/NAME`, each optionally `:SPLIT`.

Third-party shards and manifests are named the same way: `webdataset:PATH`, `shar:FOLDER`,
`lhotse:CUTS`, `datasets:FOLDER:SPLIT`.

Invariant: the name contains everything that is needed to read the data, so that a config and a
command line can use data not declared in run.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from asdf.errors import UsageError
from asdf.trials.label_words import Columns

Kind = Literal["folder", "hub", "webdataset", "shar", "lhotse", "datasets"]
_KINDS = get_args(Kind)
# The whole name of these is a path, which may contain a ':'.
_WHOLE = ("webdataset", "shar", "lhotse")


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

    kind: Kind
    where: str
    split: str = ""
    columns: Columns = field(default_factory=Columns)


def parse_located(name: str) -> Located | None:
    """Parse a name such as `folder:my/data:train`; return None for names of other kinds.

    Raises:
        UsageError: it has such a prefix, but no folder or data set.
    """
    kind, sign, rest = name.partition(":")
    if not sign or kind not in _KINDS:
        return None
    # First, since a value after the '?' may contain a ':'.
    rest, _, query = rest.partition("?")
    where, _, split = (rest, "", "") if kind in _WHOLE else rest.partition(":")
    if not where or ":" in split:
        shape = f"{kind}:PATH" if kind in _WHOLE else f"{kind}:PATH or {kind}:PATH:SPLIT"
        if kind == "hub":
            shape = "hub:ORG/NAME or hub:ORG/NAME:SPLIT, with @REVISION after NAME"
        raise UsageError(f"{name!r}: write {shape}, followed, if needed, by ?label=COLUMN.")
    columns = _read_query(name, query)
    return Located(cast(Kind, kind), where.rstrip("/") or "/", split, columns)


def _read_query(
    name: str,
    query: str,
) -> Columns:
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
