"""What looks wrong, told once: equal messages about many results are one message.

Invariant: nothing is left out: who a folded message is about, and the numbers of each, can be
opened below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

Finding = tuple[str, str, str]
"""Where (system and set, or either), level, message."""

_NUMBER = re.compile(r"\d[\d.,e+-]*")


@dataclass(frozen=True)
class Folded:
    """Findings that differ in their numbers only."""

    level: str
    findings: list[Finding]

    @property
    def words(self) -> str:
        """The message: of one finding as it is, of several what comes before their numbers, or the first one."""
        message = self.findings[0][2]
        if len(self.findings) == 1:
            return message
        start = message.partition(":")[0]
        if ":" in message and not _NUMBER.search(start):
            return start
        return f"such as: {message}"

    @property
    def where(self) -> str:
        """What it is about: the system and set, or how many results."""
        return self.findings[0][0] if len(self.findings) == 1 else f"{len(self.findings)} results"


def folded(findings: Iterable[Finding]) -> list[Folded]:
    """The findings, those that are alike but for numbers as one, in the order of the first of each kind."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for where, level, message in findings:
        kinds.setdefault((level, _NUMBER.sub("#", message)), []).append((where, level, message))
    return [Folded(level, alike) for (level, _), alike in kinds.items()]
