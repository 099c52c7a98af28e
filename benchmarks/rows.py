"""A row of a benchmark's table, and the numbers in it.

Invariant: a row contains measurements of one run, or the reason for their absence; nothing is added
from elsewhere. Its ratio states how many times better ASDF is than its counterpart, so a target is
always "at least".
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        asdf, peer: Medians, in `unit`; `peer` is the limit itself if `against` is one. None: not
            measured.
        against: Peer to which ASDF is compared, or limit that it should keep.
        target: Minimum ratio aimed at; None: the row is only informative.
        ratio: Factor by which ASDF is better, the median over the pairs of one run; `low` and
        `high` are its quartiles.
        rounds: Number of pairs that were measured.
        note: Difference between the two, or the reason why nothing was measured.
    """

    what: str
    unit: str
    against: str
    asdf: float | None = None
    peer: float | None = None
    target: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target or a measurement."""
        return None if self.ratio is None or self.target is None else self.ratio >= self.target

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compared(
    what: str,
    unit: str,
    asdf: list[float],
    against: str,
    peer: list[float],
    *,
    more: bool = False,
    **rest: Any,
) -> Row:
    """Make a row from paired measurements; `more`: higher numbers are better."""
    ratios = [a / p if more else p / a for a, p in zip(asdf, peer, strict=True)]
    low, middle, high = quartiles(ratios)
    return Row(
        what,
        unit,
        against,
        statistics.median(asdf),
        statistics.median(peer),
        ratio=middle,
        low=low,
        high=high,
        rounds=len(asdf),
        **rest,
    )


def limited(what: str, unit: str, asdf: list[float], limit: float, **rest: Any) -> Row:
    """Return a row from measurements of ASDF alone and an upper limit."""
    return compared(
        what, unit, asdf, f"limit of {limit:g} {unit}", [limit] * len(asdf), target=1.0, **rest
    )


def unmeasured(what: str, unit: str, against: str, why: str, target: float | None = None) -> Row:
    """Return a row that states why it has no numbers."""
    return Row(what, unit, against, target=target, note=f"not measured: {why}")


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Return lower quartile, median, upper quartile; for fewer than three values, the extremes."""
    if len(values) < 3:
        return min(values), statistics.median(values), max(values)
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
