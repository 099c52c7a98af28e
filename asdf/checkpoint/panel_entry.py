"""The panel in a fused system's file: its members by name, each with its own calibration.

Invariant: members are the networks of the fused system, in order, that were competent on the
control set; information on them is plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration, read_calibration


@dataclass(frozen=True)
class PanelMember:
    """A detector of a panel.

    Attributes:
        calibration: Map from its own scores to LLRs, with the threshold of its own verdicts.
    """

    name: str
    calibration: Calibration


@dataclass(frozen=True)
class Panel:
    """The members of a panel, and the competence of all candidates.

    Attributes:
        members: Members in the order of the fused system's networks.
        competence: Plain values of each candidate, including excluded ones: name, EER with
            interval, p-value, whether it is a member, and whether it is reversed.
        level: Level of the test that excluded candidates.
    """

    members: tuple[PanelMember, ...]
    competence: Sequence[Mapping[str, Any]]
    level: float

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(member.name for member in self.members)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The names of the candidates that are not members."""
        known = [str(candidate.get("name", "")) for candidate in self.competence]
        return tuple(name for name in known if name not in self.names)

    def describe(self) -> str:
        """Return members and excluded candidates in words."""
        words = f"panel of {len(self.members)} detectors: {', '.join(self.names)}"
        if self.excluded:
            words += f"; excluded as not better than chance: {', '.join(self.excluded)}"
        return words

    def summary(self) -> dict[str, Any]:
        """Return plain values for readers: the members with their thresholds, all candidates."""
        members = []
        for member in self.members:
            members.append({"name": member.name, "threshold": member.calibration.threshold})
        candidates = [dict(candidate) for candidate in self.competence]
        return {"members": members, "competence": candidates, "level": self.level}

    def content(self) -> dict[str, Any]:
        """Return plain values for a file."""
        members = []
        for member in self.members:
            members.append({"name": member.name, "calibration": member.calibration.content()})
        return {**self.summary(), "members": members}


def read_panel(entry: Any, networks: int, path: object) -> Panel | None:
    """Read the panel of a fused system's file from its `entry`; None if it has none.

    Args:
        networks: Number of networks of the fused system.

    Raises:
        AsdfError: the entry is not what `Panel.content` returns.
    """
    if entry is None:
        return None
    try:
        members = []
        for member in entry["members"]:
            calibration = read_calibration(member["calibration"], path)
            members.append((member["name"], calibration))
        competence = [dict(candidate) for candidate in entry["competence"]]
        level = float(entry["level"])
    except (KeyError, TypeError, ValueError):
        raise _damaged(path) from None
    known = []
    for name, calibration in members:
        if calibration is None or not isinstance(name, str) or not name:
            raise _damaged(path)
        known.append(PanelMember(name, calibration))
    names = {member.name for member in known}
    if len(known) != networks or len(names) != networks:
        raise _damaged(path)
    return Panel(tuple(known), tuple(competence), level)


def _damaged(path: object) -> AsdfError:
    return AsdfError(
        f"the panel in {path} cannot be used: it was changed or damaged. Create the file again "
        "with `python -m asdf panel`."
    )
