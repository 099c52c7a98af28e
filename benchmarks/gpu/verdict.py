"""A line of the acceptance run: what was checked, its number, its target, and the verdict.

Invariant: a number that is not finite never passes, and a missing measurement has a reason.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.table import number

PASS, FAIL, NOT_RUN = "PASS", "FAIL", "NOT RUN"


@dataclass(frozen=True)
class Line:
    """One result.

    Attributes:
        value: Number, or result in words; None: nothing was measured.
        target: Target of the value, in words; '' if the line is only informative.
    """

    what: str
    verdict: str
    value: float | str | None = None
    unit: str = ""
    target: str = ""
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """Return the line as printed."""
        parts = [f"{self.verdict:7}", self.what]
        if self.value is not None:
            shown = self.value if isinstance(self.value, str) else number(self.value)
            parts.append(f"= {shown} {self.unit}".rstrip())
        if self.target:
            parts.append(f"(target {self.target})")
        if self.reason:
            parts.append(f"- {self.reason}")
        return " ".join(parts)


def at_most(what: str, value: float, limit: float, unit: str = "", reason: str = "") -> Line:
    """Return PASS if the value is finite and at most the limit."""
    verdict = _verdict(math.isfinite(value) and value <= limit)
    return Line(what, verdict, _plain(value), unit, f"<= {limit:g}", reason)


def at_least(what: str, value: float, limit: float, unit: str = "", reason: str = "") -> Line:
    """Return PASS if the value is finite and at least the limit."""
    verdict = _verdict(math.isfinite(value) and value >= limit)
    return Line(what, verdict, _plain(value), unit, f">= {limit:g}", reason)


def equal(what: str, value: str | float, target: str | float, reason: str = "") -> Line:
    """Return PASS if both are equal."""
    return Line(what, _verdict(value == target), value, "", str(target), reason)


def measured(what: str, value: float, unit: str = "", reason: str = "") -> Line:
    """Return a number without a target: PASS if it is finite."""
    return Line(what, _verdict(math.isfinite(value)), _plain(value), unit, "", reason)


def stated(what: str, value: str, reason: str = "") -> Line:
    """Return a fact in words, without a target."""
    return Line(what, PASS, value, reason=reason)


def failed(what: str, reason: str, target: str = "") -> Line:
    """Return FAIL without a number."""
    return Line(what, FAIL, target=target, reason=reason)


def not_run(what: str, reason: str, target: str = "") -> Line:
    """Return NOT RUN, with the reason."""
    return Line(what, NOT_RUN, target=target, reason=reason)


def _verdict(holds: bool) -> str:
    return PASS if holds else FAIL


def _plain(value: float) -> float | str:
    """JSON has no NaN and no infinity."""
    return float(value) if math.isfinite(value) else str(float(value))
