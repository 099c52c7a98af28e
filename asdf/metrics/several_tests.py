"""Corrections of p-values for many tests at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that hold for all tests together.

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[int(index)]))
        adjusted[int(index)] = highest
    return adjusted
