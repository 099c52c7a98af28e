"""Variation of the map to likelihood ratios over sets with as many speakers or trials.

Invariant: the maps depend only on the scores, the speakers and the seed; each is fitted by the same
method as the map itself.

Source: Efron and Tibshirani, "An introduction to the bootstrap", 1993, for the percentile interval;
whole speakers are drawn, since trials of one speaker are dependent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asdf.arrays import Floats, Integers
from asdf.errors import AsdfError
from asdf.metrics.llr_maps import LlrMap, fit_map

INTERVAL_LEVEL = 0.95
"""Level of the intervals of LLRs."""

# Maximum attempts for draws that lack a class or have reversed classes.
_TRIES = 3


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
