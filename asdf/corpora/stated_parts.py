"""Parts of a corpus given in its name: `asvspoof19~0.1`, `mlaad:de~2000`, `asvspoof19~0.1~3`.

Invariant: the part depends only on the name, which includes its seed and is used in every file and
record. It has the same proportions of each class and attack as the whole, and a smaller part with
the same seed is contained in a larger one.
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
        share = self.amount if self.amount < 1 else self.amount / len(trials)
        attacks = trials.columns.get("attack") or [""] * len(trials)
        strata: dict[tuple[int, str], list[int]] = defaultdict(list)
        for index, label in enumerate(trials.labels.tolist()):
            strata[label, attacks[index]].append(index)
        chosen: list[int] = []
        for indices in strata.values():
            wanted = max(1, round(share * len(indices)))
            # Ranked, not drawn: the first of a larger part are those of a smaller one.
            indices.sort(key=lambda index: self._rank(trials.ids[index]))
            chosen += indices[:wanted]
        return trials.select(np.array(sorted(chosen)))

    def _rank(self, utterance: str) -> bytes:
        """Return a sort key of a trial, independent of other trials and of their order."""
        # Not hash(), which differs from process to process. Names of files need not be valid UTF-8.
        text = f"{self.seed}:{utterance}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


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
    is_whole = amount == int(amount)
    if match is None or not whole or amount == 0 or (amount >= 1 and not is_whole):
        raise UsageError(
            f"{name!r}: after '~', state how much of the corpus to take: a share such as 0.1 or a "
            "number of trials such as 2000, and after another '~' the seed, as in "
            "'asvspoof19~0.1~3'."
        )
    return whole, StatedPart(amount, int(match.group(2) or 0))
