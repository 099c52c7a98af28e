"""What a report has of one network on one set."""

from __future__ import annotations

from dataclasses import dataclass

from asdf.metrics.summary import Summary
from asdf.report.curves import Histogram, ThinnedCurve


@dataclass(frozen=True)
class Measurement:
    """One network on one set.

    Attributes:
        run: the index of its run.
        system: the name that it has in the report, the same on every set.
        network: 'epoch.20'.
        summary: without its scores, of which there may be more than fit into memory.
        misses: miss rates (fractions) at the false alarm rates of `DET_TICKS`, over all spoofs.
        curves: DET curves: '' is that of all spoofs, the others those of the attacks.
        page_attacks: the attacks whose curves and histograms the page draws.
    """

    run: int
    system: str
    network: str
    summary: Summary
    misses: list[float]
    curves: dict[str, ThinnedCurve]
    histogram: Histogram
    page_attacks: tuple[str, ...] = ()

    @property
    def attacks(self) -> list[str]:
        """The attacks that it has curves and histograms of."""
        return [name for name in self.curves if name]
