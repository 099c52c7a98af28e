"""Total time covered by some intervals and not by others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Interval(NamedTuple):
    """From `start` to `end`, in any unit of time."""

    start: float
    end: float


class _Change(NamedTuple):
    """An interval of a set opens (+1) or closes (-1); sorted by time."""

    time: float
    set_number: int
    step: int


def length_alone(
    what: Iterable[Interval], without: Iterable[Interval], inside: Iterable[Interval]
) -> float:
    """Return the time covered by `what` and by `inside`, and not by `without`.

    The intervals of each may overlap, and come in any order.
    """
    changes = []
    for set_number, intervals in enumerate((what, without, inside)):
        for start, end in intervals:
            changes.append(_Change(start, set_number, 1))
            changes.append(_Change(end, set_number, -1))
    changes.sort()
    open_intervals = [0, 0, 0]
    total = 0.0
    for change, following in pairwise(changes):
        open_intervals[change.set_number] += change.step
        what_count, without_count, inside_count = open_intervals
        # A count may be -1 for no time at all: of an interval without length, the end sorts first.
        if what_count > 0 and without_count <= 0 and inside_count > 0:
            total += following.time - change.time
    return total
