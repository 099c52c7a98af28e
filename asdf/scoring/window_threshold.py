"""A threshold for windows of long recordings, learnt from windows of genuine recordings.

Invariant: the false alarm rate is per recording, not per window: of genuine recordings like those
of the training set, at most `rate` have any window below the threshold, for any number of windows.
The threshold is a rank of the lowest windows, so this holds for any distribution (Vovk, Gammerman
and Shafer, Algorithmic Learning in a Random World, Springer, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.intervals import beta_quantile

_MAX_RECORDINGS = 10**6
_LEVEL = 0.95


@dataclass(frozen=True)
class WindowThreshold:
    """A threshold for windows, and the data it was learnt from.

    Attributes:
        threshold: Reported score below which a window belongs to a part.
        rate: Proportion of genuine recordings that may have a window below it.
        window, hop: Length of a window, and distance between window starts, in samples.
        counts: Number of windows of each genuine recording.
        first_below: Index of the first window below the threshold of each recording; -1 if none.
    """

    threshold: float
    rate: float
    window: int
    hop: int
    counts: tuple[int, ...]
    first_below: tuple[int, ...]

    def false_alarms(self, windows: int) -> FalseAlarms:
        """Return the rate of genuine recordings with so many windows that have one below it.

        It is counted in the first windows of recordings that have as many. If there are none, the
        rate is that of the longest recordings, and the bound is scaled by the ratio of the lengths:
        the probability of any of several events is at most the sum of their probabilities.
        """
        counts = np.array(self.counts)
        counted = min(windows, int(counts.max()))
        first = np.array(self.first_below)[counts >= counted]
        below = int(((first >= 0) & (first < counted)).sum())
        times = math.ceil(windows / counted)
        bound = 1.0
        if below < len(first):
            bound = min(1.0, times * beta_quantile(_LEVEL, below + 1, len(first) - below))
        rate = below / len(first) if times == 1 else None
        return FalseAlarms(rate, bound, len(first))

    def describe(self) -> str:
        """Return in words the data it was learnt from."""
        fewest, most = min(self.counts), max(self.counts)
        windows = f"{most}" if fewest == most else f"{fewest} to {most}"
        return (
            f"windows are compared with {self.threshold:.4g}: at most {100 * self.rate:g} % of "
            f"genuine recordings of {windows} windows, like the {len(self.counts):,} that it was "
            "learnt from, have one below it"
        )

    def content(self) -> dict[str, Any]:
        """Return plain values for a network file."""
        entry = asdict(self)
        return {**entry, "counts": list(self.counts), "first_below": list(self.first_below)}


@dataclass(frozen=True)
class FalseAlarms:
    """Rate at which a genuine recording of a given number of windows has one below the threshold.

    Attributes:
        rate: Proportion among the counted recordings; None if none was long enough.
        at_most: One-sided upper bound at 95 % (Clopper and Pearson).
        recordings: Number of genuine recordings that were counted.
    """

    rate: float | None
    at_most: float
    recordings: int

    def describe(self) -> str:
        """Return the rate in words, with its bound."""
        bound = f"at most {100 * self.at_most:.2g} %"
        if self.rate is None:
            return (
                f"of genuine recordings of this length, {bound} (95 % bound from shorter ones) "
                "have one"
            )
        return (
            f"of {self.recordings:,} genuine recordings of this length, {100 * self.rate:.2g} % "
            f"have one (95 % bound: {bound})"
        )

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def learn_window_threshold(
    scores: Sequence[Sequence[float]],
    rate: float,
    window: int,
    hop: int,
    highest: float,
    sample_rate: int = SAMPLE_RATE,
) -> WindowThreshold:
    """Learn a threshold from the windows of genuine recordings.

    It is the r-th smallest of the lowest windows, r = floor(rate (n + 1)): the lowest window of
    another recording of the same kind is below it with a probability of at most r / (n + 1).

    Args:
        scores: Reported scores of the windows of each recording.
        window, hop: Length of a window and of the hop, in samples.
        highest: Threshold of recordings, which the learnt threshold does not exceed.
        sample_rate: Sampling rate of the samples, in Hz.

    Raises:
        AsdfError: there are too few recordings for the rate.
    """
    searched = [row for row in scores if len(row)]
    rank = math.floor(rate * (len(searched) + 1))
    if rank < 1:
        needed = math.ceil(1 / rate) - 1
        raise AsdfError(
            f"only {len(searched)} genuine recordings have windows of {window / sample_rate:.3g} "
            f"s with speech: a threshold that {100 * rate:g} % of them fall below needs at least "
            f"{needed}. Name more recordings that are longer than two windows, or a higher rate."
        )
    lowest = sorted(min(row) for row in searched)
    threshold = min(lowest[rank - 1], highest)
    first_below = []
    for row in searched:
        below = [index for index, score in enumerate(row) if score < threshold]
        first_below.append(below[0] if below else -1)
    counts = tuple(len(row) for row in searched)
    return WindowThreshold(threshold, rate, window, hop, counts, tuple(first_below))


def read_window_threshold(entry: Any) -> WindowThreshold | None:
    """Return the threshold of an entry of `WindowThreshold.content`; None if it is not valid."""
    if not isinstance(entry, Mapping):
        return None
    try:
        counts = tuple(map(int, entry["counts"]))
        first_below = tuple(map(int, entry["first_below"]))
        learnt = WindowThreshold(
            float(entry["threshold"]),
            float(entry["rate"]),
            int(entry["window"]),
            int(entry["hop"]),
            counts,
            first_below,
        )
    except (KeyError, TypeError, ValueError):
        return None
    is_sound = (
        math.isfinite(learnt.threshold)
        and 0 < learnt.rate < 1
        and 0 < learnt.hop <= learnt.window
        and 0 < len(counts) == len(first_below) <= _MAX_RECORDINGS
        and min(counts) > 0
    )
    return learnt if is_sound else None
