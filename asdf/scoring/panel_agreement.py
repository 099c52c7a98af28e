"""The verdicts of the members of a panel on a recording, and how many of them agree.

Invariant: a member's LLR follows from its own score and calibration, and its verdict from its own
threshold, independent of the others and of the fused score. For a long recording, the score is the
mean over the same windows as for the fused score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from asdf.checkpoint.panel_entry import Panel
from asdf.errors import UsageError
from asdf.networks.extras import Extra
from asdf.networks.interface import Outputs
from asdf.text import and_more

MEMBERS = "members"
_BONA_FIDE = "bona fide"
_SPOOF = "spoof"
_SHOWN = 4


@dataclass(frozen=True)
class MemberVerdict:
    """The verdict of a member of a panel on a recording.

    Attributes:
        name: Name of the member.
        llr: Natural-log likelihood ratio by its own calibration.
        verdict: 'bona fide' or 'spoof', by its own threshold.
    """

    name: str
    llr: float
    verdict: str


@dataclass(frozen=True)
class Agreement:
    """The verdicts of the members of a panel on a recording, in their order."""

    members: tuple[MemberVerdict, ...]

    @property
    def bona_fide(self) -> int:
        """Number of members that say bona fide."""
        return sum(member.verdict == _BONA_FIDE for member in self.members)

    @property
    def spoof(self) -> int:
        """Number of members that say spoof."""
        return len(self.members) - self.bona_fide

    def describe(self) -> str:
        """Return the numbers of verdicts in words, with the LLRs of the minority."""
        count = len(self.members)
        # In a tie, the detectors that say spoof are named.
        fewer = _SPOOF if self.spoof <= self.bona_fide else _BONA_FIDE
        others = [member for member in self.members if member.verdict == fewer]
        majority = _BONA_FIDE if fewer == _SPOOF else _SPOOF
        if not others:
            return f"{'both' if count == 2 else f'all {count}'} detectors say {majority}"
        named = [f"{member.name} (LLR {member.llr:.2f})" for member in others]
        agreeing = count - len(others)
        says = "says" if agreeing == 1 else "say"
        return (
            f"{agreeing} of {count} detectors {says} {majority}; {fewer}: {and_more(named, _SHOWN)}"
        )

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        members = [asdict(member) for member in self.members]
        return {"bona_fide": self.bona_fide, "spoof": self.spoof, MEMBERS: members}


def read_agreement(entry: dict[str, Any] | None) -> Agreement | None:
    """Return the agreement that an `entry` was made of; None for None."""
    if entry is None:
        return None
    return Agreement(tuple(MemberVerdict(**member) for member in entry[MEMBERS]))


class Members(Extra):
    """The scores of a panel's members, one row per recording.

    Attributes:
        panel: Panel of the members.
    """

    key = MEMBERS

    def __init__(self, panel: Panel) -> None:
        self.panel = panel

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Refuse, because this extra takes several networks.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "a single network has no scores of a panel's members: only a fused system does."
        )

    def rows(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the row of each recording, (members,), from the scores of each member."""
        return list(np.stack(columns, axis=1))

    def describe(self, row: np.ndarray, samples: int) -> Agreement:
        """Return the verdicts of the members."""
        verdicts = []
        for member, score in zip(self.panel.members, row.tolist(), strict=True):
            calibration = member.calibration
            # The bounds limit what is claimed, and do not change decisions.
            decisive = float(calibration.unbounded_llr(score))
            verdict = _BONA_FIDE if decisive >= calibration.threshold else _SPOOF
            llr = float(calibration.llr(score))
            verdicts.append(MemberVerdict(member.name, llr, verdict))
        return Agreement(tuple(verdicts))
