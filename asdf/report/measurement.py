"""The measurement of one network on one set, for a report."""

from __future__ import annotations

from dataclasses import dataclass

from asdf.report.curves import Histogram, ThinnedCurve
from asdf.tasks.studies.measured import Measured


@dataclass(frozen=True)
class Measurement(Measured):
    """One network on one set, with the data for drawing.

    Attributes:
        misses: Miss rates (fractions) at the false alarm rates of `DET_TICKS`, over all spoofs.
        curves: DET curves: '' for all spoofs, the others for attacks.
        page_attacks: Attacks whose curves and histograms are on the page.
    """

    misses: list[float]
    curves: dict[str, ThinnedCurve]
    histogram: Histogram
    page_attacks: tuple[str, ...] = ()

    @property
    def attacks(self) -> list[str]:
        """The attacks that have curves and histograms."""
        return [name for name in self.curves if name]
