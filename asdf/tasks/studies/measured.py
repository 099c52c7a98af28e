"""A network's measurement on a set, and findings about it."""

from __future__ import annotations

from dataclasses import dataclass

from asdf.metrics.summary import Summary


@dataclass(frozen=True)
class Measured:
    """One network on one set.

    Attributes:
        run: Index of its run.
        system: Name in the report, the same on every set.
        network: Name of the network, such as 'epoch.20'.
        summary: Summary without scores, because the scores of all systems may not fit into memory.
    """

    run: int
    system: str
    network: str
    summary: Summary


@dataclass(frozen=True)
class ReportFinding:
    """A finding that something looks wrong, and where.

    Attributes:
        where: System, set, or both.
        level: Severity: 'error', 'warning' or 'note'.
    """

    where: str
    level: str
    message: str
