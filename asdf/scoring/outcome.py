"""What a network gives for pieces of recordings, on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a network gives for one piece of a recording.

    Attributes:
        raw: Score of the network itself, before a calibration.
        extras: Rows of its extras, by key.
    """

    raw: float
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What a network gives for several pieces, in their order.

    Attributes:
        scores: (pieces,) float32; of networks that are fused float64.
        extras: Rows of each piece, by key.
    """

    scores: np.ndarray
    extras: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Outcome]:
        for index, score in enumerate(self.scores.tolist()):
            yield Outcome(score, {key: rows[index] for key, rows in self.extras.items()})
