"""How long one thing went on while another did not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

Interval = tuple[float, float]


def length_alone(
    what: Iterable[Interval], beside: Iterable[Interval], inside: Iterable[Interval]
) -> float:
    """The time that is covered by some interval of `what` and of `inside`, and by none of `beside`.

    The intervals of each may overlap, and come in any order.
    """
    changes = sorted(
        (place, kind, step)
        for kind, intervals in enumerate((what, beside, inside))
        for start, end in intervals
        for place, step in ((start, 1), (end, -1))
    )
    open_ones = [0, 0, 0]
    total = 0.0
    for (place, kind, step), (following, _, _) in pairwise(changes):
        open_ones[kind] += step
        if open_ones[0] > 0 and open_ones[1] <= 0 and open_ones[2] > 0:
            total += following - place
    return total
