"""Bootstrap intervals of range EER, F1 and intersection over union, over whole recordings.

Invariant: a replicate has exactly the metrics of its drawn recordings, without cutting or sorting
again: a recording that is drawn twice counts twice. Stretches of one recording are dependent, as
are recordings of one speaker: if speakers are known, whole speakers are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from asdf.arrays import AnyIntegers, Floats, Indices
from asdf.errors import AsdfError
from asdf.metrics.intervals import Interval, rate_interval
from asdf.tasks.localisation.located_measures import Stretches, agreement_of, range_eer


@dataclass(frozen=True)
class LocalisationIntervals:
    """The intervals of the three range metrics, as fractions.

    Attributes:
        groups: Number of recordings, or speakers, to draw from.
    """

    range_eer: Interval
    f1: Interval
    iou: Interval
    groups: int


def localisation_intervals(
    stretches: Stretches,
    threshold: float,
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LocalisationIntervals:
    """Return intervals over recordings or speakers; they depend only on the data and the seed.

    Args:
        threshold: Threshold of F1 and intersection over union.
        speakers: Speaker of each recording; None: recordings are drawn.
        progress: Function called with the numbers of finished and of all replicates.

    Raises:
        AsdfError: there are too few spoofed, or too few bona fide, recordings or speakers.
    """
    group_of = _groups(stretches, speakers)
    count = int(group_of.max()) + 1
    curve = _SortedStretches(stretches, group_of)
    hits = _sums_at(stretches, group_of, threshold)
    rng = np.random.default_rng(seed)
    rates = []
    agreements = []
    for done in range(1, replicates + 1):
        times = rng.multinomial(count, np.full(count, 1 / count))
        rate = curve.eer(times)
        if rate is not None:
            rates.append(rate)
            agreements.append(times @ hits)  # (3,)
        if progress is not None:
            progress(done, replicates)
    # Draws without one of the classes have no EER; if most lack one, the rest are a biased sample.
    if len(rates) < replicates / 2 or count < 2:
        raise AsdfError(
            f"of the {count} recordings or speakers to draw from, too few are spoofed or bona "
            "fide for intervals: leave them out with --replicates 0."
        )
    # Recordings are groups too, since stretches of one recording are dependent.
    interval = partial(rate_interval, trials=count, groups=count, level=level)
    whole = agreement_of(stretches, threshold)
    hit, false, missed = np.array(agreements).T
    return LocalisationIntervals(
        range_eer=interval(range_eer(stretches).rate, np.array(rates)),
        f1=interval(whole.f1, _share(2 * hit, 2 * hit + false + missed)),
        iou=interval(whole.iou, _share(hit, hit + false + missed)),
        groups=count,
    )


def _groups(stretches: Stretches, speakers: Sequence[str] | None) -> Indices:
    """Return the index of the recording or speaker of each stretch."""
    values = stretches.recording
    if speakers is not None:
        values = np.unique(np.asarray(speakers), return_inverse=True)[1][values]
    # Numbered again, because a recording without frames has no stretch and cannot be drawn.
    return np.unique(values, return_inverse=True)[1]


class _SortedStretches:
    """Stretches sorted by score, for the EERs of any number of replicates."""

    def __init__(self, stretches: Stretches, group_of: Indices) -> None:
        order = np.argsort(stretches.scores, kind="stable")
        scores = stretches.scores[order]
        is_bona_fide = stretches.is_bona_fide[order]
        seconds = stretches.seconds[order]
        # Equal scores are rejected together, as in `range_eer`.
        self._last = np.append(scores[1:] != scores[:-1], True)
        self._group = group_of[order]
        self._bona_fide_s = np.where(is_bona_fide, seconds, 0.0)
        self._spoof_s = np.where(is_bona_fide, 0.0, seconds)

    def eer(self, times: AnyIntegers) -> float | None:
        """Return the EER with the given count of each group; None if a class is missing."""
        weights = times[self._group]  # (stretches,)
        missed = np.cumsum(weights * self._bona_fide_s)
        rejected = np.cumsum(weights * self._spoof_s)
        if not missed[-1] or not rejected[-1]:
            return None
        # The first point rejects nothing.
        frr = np.append(0.0, missed[self._last] / missed[-1])
        far = np.append(1.0, 1 - rejected[self._last] / rejected[-1])
        best = int(np.argmin(np.abs(frr - far)))
        return float((frr[best] + far[best]) / 2)


def _sums_at(stretches: Stretches, group_of: Indices, threshold: float) -> Floats:
    """Return the seconds of hits, false alarms and misses of each group, (groups, 3)."""
    is_marked = stretches.scores < threshold
    is_spoof = ~stretches.is_bona_fide
    kinds = (is_marked & is_spoof, is_marked & ~is_spoof, ~is_marked & is_spoof)
    sums = []
    for chosen in kinds:
        sums.append(np.bincount(group_of, weights=stretches.seconds * chosen))
    return np.stack(sums, axis=1)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
