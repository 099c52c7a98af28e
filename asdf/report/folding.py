"""Findings, folded: equal messages about many results become one message.

Invariant: nothing is left out. The results of a folded message, with their numbers, can be expanded
below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from asdf.tasks.studies.measured import ReportFinding
from asdf.text import and_more

_NUMBER = re.compile(r"\d[\d.,e+-]*")  # 1,234 and 1e-05 are one number each


@dataclass(frozen=True)
class FoldedFindings:
    """Findings of one level whose messages differ only in their numbers."""

    findings: list[ReportFinding]

    @property
    def level(self) -> str:
        """The common level of the findings."""
        return self.findings[0].level

    @property
    def words(self) -> str:
        """The message of a single finding; the text before the numbers of several, or the first."""
        message = self.findings[0].message
        if len(self.findings) == 1:
            return message
        # A number in the start would suggest that all findings have it.
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
    """Group the findings that differ only in numbers, in the order of the first of each group."""
    groups: dict[tuple[str, str], list[ReportFinding]] = {}
    for finding in findings:
        kind = (finding.level, _NUMBER.sub("#", finding.message))
        groups.setdefault(kind, []).append(finding)
    return list(map(FoldedFindings, groups.values()))
