"""Spearman's rank correlation of two sequences of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, with mean ranks for ties; None without a spread."""
    ranks = [_ranks(first), _ranks(second)]
    if any(np.ptp(values) == 0 for values in ranks):
        return None
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, np.float64)
    below = (array[:, None] > array[None]).sum(axis=1)
    same = (array[:, None] == array[None]).sum(axis=1)
    ranks: np.ndarray = below + (same + 1) / 2
    return ranks
