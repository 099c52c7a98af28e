"""What a set was to the network that is evaluated on it: trained on, or what the network was chosen
by.

Invariant: recordings count, not the names of sets. A number of such a set never stands without
saying so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_TRAINED = "trained on"
_CHOSE = "chose the network"


@dataclass(frozen=True)
class SetRole:
    """How many trials of a set a network had met before it was evaluated on them.

    Attributes:
        trials: Trials of the set.
        trained_on: trials whose recordings are in a training set.
        chose_network: trials whose recordings are in the set that the network was chosen by.
    """

    trials: int
    trained_on: int = 0
    chose_network: int = 0

    def describe(self) -> str:
        """Return 'trained on', '3 of 80 trained on', 'chose the network'; '' for a new set."""
        parts = [self.describe_training(), _share(self.chose_network, self.trials, _CHOSE)]
        return " and ".join(filter(None, parts))

    def describe_training(self) -> str:
        """Return what of it was trained on, alone."""
        return _share(self.trained_on, self.trials, _TRAINED)

    def warnings(self) -> list[str]:
        """Return a sentence for each reason why numbers on the set are too good."""
        sentences = []
        if self.trained_on:
            sentences.append(f"{self._part(self.trained_on)} trained on: the numbers are no test.")
        if self.chose_network:
            sentences.append(
                f"the network was chosen by its result on {self._of_set(self.chose_network)}: on "
                "new speech it is worse than here."
            )
        return sentences

    def _part(self, count: int) -> str:
        if count >= self.trials:
            return "this set was"
        return f"{count:,} of the {self.trials:,} recordings of this set were"

    def _of_set(self, count: int) -> str:
        if count >= self.trials:
            return "this set"
        return f"{count:,} of the {self.trials:,} recordings of this set"

    def record(self) -> dict[str, int]:
        """Return it for JSON, without the number of trials, which each record has."""
        return {"trained_on": self.trained_on, "chose_network": self.chose_network}


def role_record(role: SetRole | None) -> dict[str, Any]:
    """Return a role for JSON; null is what is not known."""
    if role is None:
        return {"trained_on": None, "chose_network": None}
    return role.record()


def role_words(role: SetRole | None) -> str:
    """Return ', trained on' and the like for the end of a description; '' where it is a new set."""
    words = role.describe() if role is not None else ""
    return f", {words}" if words else ""


def role_in(row: Mapping[str, Any]) -> SetRole | None:
    """Return the role of the set in a row of results.json; None where the row does not say."""
    counts = [row.get(name) for name in ("bona_fide", "spoof", "trained_on", "chose_network")]
    known = [count for count in counts if isinstance(count, int)]
    if len(known) < len(counts):
        return None
    bona_fide, spoof, trained_on, chose_network = known
    return SetRole(bona_fide + spoof, trained_on, chose_network)


def role_notes(roles: Iterable[tuple[str, SetRole | None]]) -> list[str]:
    """Return a line for each set whose numbers are no test, for below a table.

    Args:
        roles: the name of each set with its role.
    """
    notes: dict[str, None] = {}
    for name, role in roles:
        for warning in role.warnings() if role is not None else ():
            notes[f"{name}: {warning}"] = None
    return list(notes)


def _share(count: int, trials: int, what: str) -> str:
    if not count:
        return ""
    return what if count >= trials else f"{count:,} of {trials:,} {what}"
