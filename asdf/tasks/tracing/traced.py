"""Which source a recording is of, by a network that traces sources.

Invariant: probabilities are of the network's classes alone and sum up to 1; a recording of another
source gets them as well, which is why low ones mean that the source is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Sources:
    """The classes of sources with their probabilities for a recording.

    Attributes:
        column: Column of the training list, whose values the classes are: attack, vocoder, language
            ...
        log_probabilities: natural logarithms, by the names of the classes.
        energy: the logarithm of the sum of the classes' odds: a low one means that the source is
            unknown (`asdf.tasks.tracing.source_measures`).
    """

    column: str
    log_probabilities: dict[str, float]
    energy: float

    @property
    def probabilities(self) -> dict[str, float]:
        """The probabilities by the names of the classes."""
        return {name: float(np.exp(value)) for name, value in self.log_probabilities.items()}

    @property
    def best(self) -> str:
        """The class with the highest probability; of equal ones the first."""
        return max(self.log_probabilities, key=self.log_probabilities.__getitem__)

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"source": self.best, "sources": self.probabilities}


def name_sources(column: str, names: Sequence[str], logits_K: np.ndarray) -> Sources:
    """Return what the logits of a recording, (classes,), say of its source."""
    exact = logits_K.astype(np.float64)
    energy = float(np.logaddexp.reduce(exact))
    logarithms = (exact - energy).tolist()
    return Sources(column, dict(zip(names, logarithms, strict=True)), energy)
