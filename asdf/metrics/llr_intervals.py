"""The likelihood ratios that a set of trials supports: their bounds, and variation over sets.

Invariant: bounds lie on either side of 0, within the observed LLRs, and never beyond the logarithm
of one plus the number of trials of the contradicting class. The maps of the bootstrap depend only
on the scores, the speakers and the seed; each is fitted by the same method as the map itself.

Sources: Vergeer, van Es, de Jongh, Alberink and Stoel, "Numerical likelihood ratios outputted by LR
systems are often based on extrapolation: When to stop extrapolating?", Science & Justice 56, 2016,
482-491: the empirical lower and upper bound (ELUB). The grid of thresholds and the treatment of
ties, and hence the values, are those of the package lir of the Netherlands Forensic Institute.
Efron and Tibshirani, "An introduction to the bootstrap", 1993, for the percentile interval; whole
speakers are drawn, since trials of one speaker are dependent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from asdf.arrays import Floats, Integers
from asdf.errors import AsdfError
from asdf.metrics.llr_maps import LlrMap, fit_map
from asdf.metrics.verbal_scale import LN10

# Distance between tested thresholds, in log10.
_STEP = 0.01
# Integers of trials may meet the prior's rate exactly, which does not count as a failure.
_ROUNDING = 1e-12
INTERVAL_LEVEL = 0.95
"""Level of the intervals of LLRs."""
# Maximum attempts for draws that lack a class or have reversed classes.
_TRIES = 3


def empirical_bounds(bona_fide: Floats, spoof: Floats) -> tuple[float, float]:
    """Return the lowest and highest LLR that the LLRs of a set support, in natural logarithms.

    Decisions by these LLRs at a threshold, with the prior odds for which it is the Bayes threshold,
    must be better than by the prior alone, even if one additional trial of each class were
    completely misleading. The bounds are the thresholds nearest to 0 beyond which this fails.

    Args:
        bona_fide, spoof: Finite LLRs of the trials of each class.
    """
    # In log10, as in the paper and in lir.
    bona_fide = np.sort(bona_fide) / LN10
    spoof = np.sort(spoof) / LN10
    thresholds = _thresholds(bona_fide, spoof)
    rates = _normalised_error_rates(bona_fide, spoof, thresholds)
    fails = rates > 1 + _ROUNDING
    below = thresholds[fails & (thresholds <= 0)]
    above = thresholds[fails & (thresholds >= 0)]
    lower = thresholds[0]
    if below.size:
        lower = below.max() + _STEP
    upper = thresholds[-1]
    if above.size:
        upper = above.min() - _STEP
    # A system that is never better than the prior supports no LLR but 0.
    lower = min(float(lower), 0.0)
    upper = max(float(upper), 0.0)
    return lower * LN10, upper * LN10


def _thresholds(bona_fide: Floats, spoof: Floats) -> Floats:
    """Return the possible bounds in log10: a grid of LLRs that contains 0."""
    seen = np.concatenate([bona_fide, spoof])
    # One trial in n + 1 is the smallest rate that n trials can show.
    lowest = max(seen.min(), -math.log10(bona_fide.size + 1))
    highest = min(seen.max(), math.log10(spoof.size + 1))
    first = min(0, math.floor(lowest / _STEP))
    last = max(0, math.floor(highest / _STEP) + 1)
    count = last - first + 1
    return np.linspace(first * _STEP, last * _STEP, count)


def _normalised_error_rates(bona_fide: Floats, spoof: Floats, thresholds: Floats) -> Floats:
    """Return the Bayes error rate of decisions at each threshold over that of the prior alone.

    Args:
        bona_fide, spoof: Sorted LLRs in log10, like the thresholds.
    """
    missed = np.searchsorted(bona_fide, thresholds, side="right")
    rejected = np.searchsorted(spoof, thresholds, side="right")
    accepted = spoof.size - rejected
    # The misleading trial of each class: bona fide below all thresholds, spoof above them.
    miss_rate = (missed + 1) / (bona_fide.size + 1)
    false_alarm_rate = (accepted + 1) / (spoof.size + 1)
    odds = 10**thresholds
    by_scores = miss_rate + odds * false_alarm_rate
    by_prior = np.minimum(1, odds)
    return by_scores / by_prior


def bootstrap_maps(
    method: str,
    bona_fide: Floats,
    spoof: Floats,
    speakers: tuple[list[str], list[str]] | None,
    count: int,
    seed: int = 0,
) -> list[LlrMap]:
    """Fit a map to each of `count` draws with replacement, of speakers or else of trials by class.

    Args:
        method: Method of `llr_maps.METHODS`.
        speakers: Speaker of each trial of either class; None to draw trials.

    Returns:
        Maps, fewer than `count` if many draws cannot be calibrated; none if most of them cannot.
    """
    rng = np.random.default_rng(seed)
    draws = _draw_trials(bona_fide.size, spoof.size, rng)
    units = None
    if speakers is not None:
        draws = _draw_speakers(speakers, rng)
        units = len({*speakers[0], *speakers[1]})
    maps: list[LlrMap] = []
    for _ in range(_TRIES * count):
        indices = next(draws)
        drawn_bona_fide = bona_fide[indices[0]]
        drawn_spoof = spoof[indices[1]]
        try:
            fitted = fit_map(method, drawn_bona_fide, drawn_spoof, units)
        except AsdfError:
            # A class is missing, or the scores are all equal or reversed.
            continue
        maps.append(fitted)
        if len(maps) == count:
            break
    return maps if 2 * len(maps) >= count else []


def _draw_trials(
    bona_fide: int, spoof: int, rng: np.random.Generator
) -> Iterator[tuple[Integers, Integers]]:
    """Yield the indices of drawn trials, as many of each class as there are."""
    while True:
        yield rng.integers(bona_fide, size=bona_fide), rng.integers(spoof, size=spoof)


def _draw_speakers(
    speakers: tuple[list[str], list[str]], rng: np.random.Generator
) -> Iterator[tuple[Integers, Integers]]:
    """Yield the indices of all trials of drawn speakers, as many speakers as there are."""
    # Sorted, since the order of a set differs between processes, and the draws must not.
    names = sorted({*speakers[0], *speakers[1]})
    bona_fide = _trials_by_name(names, speakers[0])
    spoof = _trials_by_name(names, speakers[1])
    while True:
        drawn = rng.integers(len(names), size=len(names))
        yield _join(bona_fide, drawn), _join(spoof, drawn)


def _join(trials: list[Integers], drawn: Integers) -> Integers:
    """Return the trials of the drawn speakers."""
    return np.concatenate([trials[speaker] for speaker in drawn])


def _trials_by_name(names: list[str], column: list[str]) -> list[Integers]:
    """Return the indices of the trials of each name, in the order of `names`."""
    trials: dict[str, list[int]] = {name: [] for name in names}
    for index, name in enumerate(column):
        trials[name].append(index)
    return [np.array(trials[name], np.int64) for name in names]
