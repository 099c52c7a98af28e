"""Names of corpora that state a location, `folder:PATH:SPLIT`, or a part, `asvspoof19~0.1~3`.

Invariant: the name contains everything that is needed to read the data, so that a config and a
command line can use data not declared in run.py. A part depends only on the name, which includes
its seed. It has the same proportions of each class and attack as the whole, and a smaller part with
the same seed is contained in a larger one.

Data that extras read are named the same way as folders, as `LOCATED` of the extras says.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from asdf.errors import UsageError
from asdf.ports import provided
from asdf.trials.label_words import Columns
from asdf.trials.trial_list import TrialList

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
    names = {}
    for word in query.split(",") if query else ():
        ours, _, theirs = word.partition("=")
        if not ours or not theirs:
            raise UsageError(
                f"{name!r}: after the '?', name the columns and the value that is bona fide: "
                "?label=COLUMN,speaker=COLUMN,bona_fide=VALUE."
            )
        names[ours] = theirs
    bona_fide = names.pop("bona_fide", "")
    return Located(kind, where.rstrip("/") or "/", split, Columns(names, bona_fide))


_SIGN = "~"
_PART = re.compile(r"(\d+(?:\.\d+)?)(?:~(\d{1,9}))?")


@dataclass(frozen=True)
class StatedPart:
    """The size of a part of a corpus.

    Attributes:
        amount: Proportion of its trials if below 1, else their number.
    """

    amount: float
    seed: int = 0

    def of(self, trials: TrialList) -> TrialList:
        """Return the part of a list, in its order and with its name.

        Each class and attack keeps its proportion, and at least one trial.

        Raises:
            UsageError: the list has too few trials.
        """
        if self.amount > len(trials):
            raise UsageError(
                f"{trials.name}: {self.amount:g} trials were requested of {len(trials):,}."
            )

        def rank(index: int) -> bytes:
            """Return a sort key of a trial, independent of other trials and of their order."""
            # Not hash(), which differs from process to process. Names of files need not be valid
            # UTF-8.
            text = f"{self.seed}:{trials.ids[index]}"
            return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()

        share = self.amount if self.amount < 1 else self.amount / len(trials)
        attacks = trials.columns.get("attack") or [""] * len(trials)
        strata: dict[tuple[int, str], list[int]] = defaultdict(list)
        for index, stratum in enumerate(zip(trials.labels.tolist(), attacks, strict=True)):
            strata[stratum].append(index)
        chosen: list[int] = []
        for indices in strata.values():
            # Ranked, not drawn: the first of a larger part are those of a smaller one.
            chosen += sorted(indices, key=rank)[: max(1, round(share * len(indices)))]
        return trials.select(np.array(sorted(chosen)))


def parse_part(name: str) -> tuple[str, StatedPart | None]:
    """Return the name of a corpus, and the part of it in a name; None for all of it.

    Raises:
        UsageError: the text after the '~' is not a proportion, a number or a seed.
    """
    whole, sign, text = name.partition(_SIGN)
    if not sign:
        return name, None
    match = _PART.fullmatch(text)
    amount = float(match.group(1)) if match else 0.0
    is_amount = 0 < amount < 1 or amount == int(amount) > 0
    if match is None or not whole or not is_amount:
        raise UsageError(
            f"{name!r}: after '~', state a share of the corpus such as 0.1 or a number of trials "
            "such as 2000, and after another '~' the seed, as in 'asvspoof19~0.1~3'."
        )
    return whole, StatedPart(amount, int(match.group(2) or 0))
