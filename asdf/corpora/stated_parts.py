"""A stated part of a corpus by its name: `asvspoof19~0.1`, `mlaad:de~2000`, `asvspoof19~0.1~3`.

Invariant: the part follows from the name alone, with its seed, and is in every file and record by
it; it has its share of each class and attack, and a smaller part of the same seed lies in a larger
one.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from asdf.errors import UsageError
from asdf.trials.trial_list import TrialList

_SIGN = "~"
_PART = re.compile(r"(\d+(?:\.\d+)?)(?:~(\d{1,9}))?")


@dataclass(frozen=True)
class StatedPart:
    """How much of a corpus is taken.

    Attributes:
        amount: Share of its trials below 1, else their number.
    """

    amount: float
    seed: int = 0

    def of(
        self,
        trials: TrialList,
    ) -> TrialList:
        """Return the part of a list, in its order and under its name.

        Each class and attack keeps its share, and at least one trial.

        Raises:
            UsageError: it has fewer trials than are to be taken.
        """
        if self.amount > len(trials):
            raise UsageError(
                f"{trials.name}: {self.amount:g} trials are to be taken of {len(trials):,}."
            )
        share = self.amount if self.amount < 1 else self.amount / len(trials)
        attacks = trials.columns.get("attack") or [""] * len(trials)
        strata: dict[tuple[int, str], list[int]] = defaultdict(list)
        for index, label in enumerate(trials.labels.tolist()):
            strata[label, attacks[index]].append(index)
        chosen: list[int] = []
        for indices in strata.values():
            wanted = max(1, round(share * len(indices)))
            indices.sort(key=lambda index: self._rank(trials.ids[index]))
            chosen += indices[:wanted]
        return trials.select(np.array(sorted(chosen)))

    def _rank(
        self,
        utterance: str,
    ) -> bytes:
        """Return what trials are ordered by: it depends on no other trial, nor on their order."""
        text = f"{self.seed}:{utterance}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def parse_part(name: str) -> tuple[str, StatedPart | None]:
    """Return the name of a corpus, and the part of it that a name states; None for all of it.

    Raises:
        UsageError: what stands behind the '~' is no share, number or seed.
    """
    whole, sign, text = name.partition(_SIGN)
    if not sign:
        return name, None
    match = _PART.fullmatch(text)
    amount = float(match.group(1)) if match else 0.0
    is_whole = amount == int(amount)
    if match is None or not whole or amount == 0 or (amount >= 1 and not is_whole):
        raise UsageError(
            f"{name!r}: behind '~' stands how much of the corpus is taken, a share such as 0.1 or "
            "a number of trials such as 2000, and after another '~' the seed, as in "
            "'asvspoof19~0.1~3'."
        )
    return whole, StatedPart(amount, int(match.group(2) or 0))
