"""What a report has of one network on one set."""

from __future__ import annotations

from dataclasses import dataclass

from asdf.report.curves import Histogram, ThinnedCurve
from asdf.tasks.studies.measured import Measured


@dataclass(frozen=True)
class Measurement(Measured):
    """One network on one set, with what is drawn of it.

    Attributes:
        misses: miss rates (fractions) at the false alarm rates of `DET_TICKS`, over all spoofs.
        curves: DET curves: '' is that of all spoofs, the others those of the attacks.
        page_attacks: the attacks whose curves and histograms the page draws.
    """

    misses: list[float]
    curves: dict[str, ThinnedCurve]
    histogram: Histogram
    page_attacks: tuple[str, ...] = ()

    @property
    def attacks(self) -> list[str]:
        """The attacks that it has curves and histograms of."""
        return [name for name in self.curves if name]
