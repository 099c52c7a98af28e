"""What a score file does not show: lengths, precision, and what its set was to the network.

Invariant: what stands next to a result is what is known of it; results that were scored in
different ways are never compared without saying so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from asdf.trials.scored_length import UNKNOWN, ScoredLength, described
from asdf.trials.set_roles import SetRole, role_in, role_record, role_words

FULL = "fp32"
"""Single precision, the arithmetic that goes without saying."""


@dataclass(frozen=True)
class HowScored:
    """How the scores of a file were computed.

    Attributes:
        length: Part of each recording that was scored; None where it is not known.
        precision: 'fp32', 'tf32' or 'bf16'; None where it is not known, as of files of other
            programs and of the first versions.
        engine: 'packed' or 'plain'; None where it is not known. Scores of both are within 1e-5, so
            they are compared without a word.
        role: Role of the file's set for the network; None where it is not known.
        network: digest of the network that made them (`asdf.interchange.network_digest`); None
            where it is not known.
        trials: number of trials that the score file should have; None where it is not known.
    """

    length: ScoredLength | None = None
    precision: str | None = None
    engine: str | None = field(default=None, compare=False)
    role: SetRole | None = field(default=None, compare=False)
    network: str | None = field(default=None, compare=False)
    trials: int | None = field(default=None, compare=False)

    def describe(self) -> str:
        """Describe it for a table or a log.

        The precision is named only if it is known not to be fp32, the role only of a set that was
        trained on or that chose the network.
        """
        return f"{self.describe_computing()}{role_words(self.role)}"

    def describe_computing(self) -> str:
        """Return length and precision alone, for where the role stands elsewhere."""
        return f"{described(self.length)}{in_precision(self.precision)}"

    def warnings(self) -> list[str]:
        """Return a sentence for each reason why numbers of the set are no test of the network."""
        return [] if self.role is None else self.role.warnings()

    def record(self) -> dict[str, Any]:
        """Return it for JSON; null is what is not known."""
        length = None if self.length is None else asdict(self.length)
        return {
            "scored_length": length,
            "scoring_precision": self.precision,
            **role_record(self.role),
        }


NOT_KNOWN = HowScored()
"""Nothing is known, as of score files of other programs."""


def in_precision(precision: str | None) -> str:
    """Return ', in bf16', for the end of a description; '' for fp32 and for what is not known."""
    if precision in (None, FULL):
        return ""
    return f", in {precision}"


def described_set(row: Mapping[str, Any]) -> str:
    """Return the set of a row of results.json, 'dev' or 'dev, in bf16, trained on'."""
    return f"{row['set']}{in_precision(row.get('scoring_precision'))}{role_words(role_in(row))}"


def different_precisions(ways: Iterable[HowScored]) -> str:
    """Return 'fp32, bf16' where scores were computed in different precisions; '' where not.

    One that is not known counts as fp32, which other programs mostly compute in, but is named.
    """
    effective = set()
    names: list[str] = []
    for way in ways:
        effective.add(way.precision or FULL)
        name = way.precision or UNKNOWN
        if name not in names:
            names.append(name)
    if len(effective) < 2:
        return ""
    return ", ".join(names)
