"""What looks wrong, reported once: equal messages about many results become one message.

Invariant: nothing is left out. What a folded message is about, and the numbers of each result, can
be opened below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from asdf.tasks.studies.measured import ReportFinding
from asdf.text import and_more

_NUMBER = re.compile(r"\d[\d.,e+-]*")


@dataclass(frozen=True)
class FoldedFindings:
    """Findings of one level whose messages differ in their numbers only."""

    findings: list[ReportFinding]

    @property
    def level(self) -> str:
        """The level of all of them."""
        return self.findings[0].level

    @property
    def words(self) -> str:
        """The message of a single finding; of several what precedes their numbers, or the first."""
        message = self.findings[0].message
        if len(self.findings) == 1:
            return message
        # A start that has a number itself would say that all have the same one.
        start = message.partition(":")[0]
        if ":" in message and not _NUMBER.search(start):
            return start
        return f"such as: {message}"

    @property
    def where(self) -> str:
        """The system and set of a single finding, or the number of results."""
        if len(self.findings) == 1:
            return self.findings[0].where
        return f"{len(self.findings)} results"

    def as_line(self) -> str:
        """Return level, first places and first message in one line, for a terminal."""
        where = and_more([finding.where for finding in self.findings], 3)
        return f"{self.level}: {where}: {self.findings[0].message}"


def fold_findings(findings: Iterable[ReportFinding]) -> list[FoldedFindings]:
    """Group the findings that differ in numbers only, in the order of the first of each group."""
    groups: dict[tuple[str, str], list[ReportFinding]] = {}
    for finding in findings:
        kind = (finding.level, _NUMBER.sub("#", finding.message))
        groups.setdefault(kind, []).append(finding)
    return list(map(FoldedFindings, groups.values()))
