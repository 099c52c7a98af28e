"""What a study knows of a network on a set, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass

from asdf.metrics.summary import Summary


@dataclass(frozen=True)
class Measured:
    """One network on one set.

    Attributes:
        run: Index of its run.
        system: Name that it has in the report, the same on every set.
        network: Name of the network, such as 'epoch.20'.
        summary: Summary without its scores, of which there may be more than fit into memory.
    """

    run: int
    system: str
    network: str
    summary: Summary


@dataclass(frozen=True)
class ReportFinding:
    """One thing that looks wrong, and where.

    Attributes:
        where: System and set, or either.
        level: 'error', 'warning' or 'note'.
    """

    where: str
    level: str
    message: str
