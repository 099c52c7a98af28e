"""The source of a recording, by a network that traces sources.

Invariant: the probabilities are over the network's classes alone and sum to 1. A recording of
another source gets probabilities too, so low ones indicate an unknown source.
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
        column: Column of the training list with the classes: attack, vocoder, language ...
        log_probabilities: Natural logarithms of the probabilities, by class name.
        energy: Logarithm of the sum of the classes' odds: a low value indicates an unknown source
            (`asdf.tasks.tracing.source_measures`).
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
        """The class with the highest probability; the first one of equal classes."""
        return max(self.log_probabilities, key=self.log_probabilities.__getitem__)

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"source": self.best, "sources": self.probabilities}


def name_sources(column: str, names: Sequence[str], logits_K: np.ndarray) -> Sources:
    """Return the sources of a recording from its logits, (classes,)."""
    exact = logits_K.astype(np.float64)
    # The exponential of a logit beyond 709 would overflow.
    energy = float(np.logaddexp.reduce(exact))
    logarithms = (exact - energy).tolist()
    return Sources(column, dict(zip(names, logarithms, strict=True)), energy)
