"""How scores came about, as far as their file does not show it: of how much of each recording, in which arithmetic.

Invariant: what stands beside a result is what is known of it; results that were scored in different
ways are never compared without saying so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from asdf.trials.scored_length import UNKNOWN, ScoredLength, described

FULL = "fp32"
"""Single precision, the arithmetic that goes without saying."""


@dataclass(frozen=True)
class HowScored:
    """How the scores of a file were computed.

    Attributes:
        length: of how much of each recording; None where it is not known.
        precision: 'fp32', 'tf32' or 'bf16'; None where it is not known, as of files of other
            programs and of the first versions.
    """

    length: ScoredLength | None = None
    precision: str | None = None

    def describe(self) -> str:
        """In words for a table or a log; the precision only where it is known to be another than fp32."""
        return f"{described(self.length)}{in_precision(self.precision)}"

    def record(self) -> dict[str, Any]:
        """For JSON; null is what is not known."""
        return {
            "scored_length": asdict(self.length) if self.length else None,
            "scoring_precision": self.precision,
        }


NOT_KNOWN = HowScored()
"""Nothing is known, as of score files of other programs."""


def in_precision(precision: str | None) -> str:
    """', in bf16', to be put behind what it is of; '' for fp32 and for what is not known."""
    return "" if precision in (None, FULL) else f", in {precision}"


def set_and_precision(row: Mapping[str, Any]) -> str:
    """The set of a row of results.json, 'dev' or 'dev, in bf16'."""
    return f"{row['set']}{in_precision(row.get('scoring_precision'))}"


def different_precisions(ways: Iterable[HowScored]) -> str:
    """'fp32, bf16' where scores were computed in different precisions, each once; '' where not.

    Those of which it is not known count as fp32, which others mostly compute in, but are named.
    """
    precisions = [way.precision for way in ways]
    if len({precision or FULL for precision in precisions}) < 2:
        return ""
    return ", ".join(dict.fromkeys(precision or UNKNOWN for precision in precisions))
