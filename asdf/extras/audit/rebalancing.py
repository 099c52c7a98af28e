"""Rebalanced lists, in which the shortcut features are distributed alike in both classes.

Each recording of the smaller class is matched with the nearest ones of the other class in its list;
unmatched recordings are dropped. A match has the same words, and its ranks of all shortcuts differ
by at most a given proportion of all recordings. The remaining recordings are audited again, to
verify that no shortcut is left.

Invariant: a recording stays in its list, and occurs in it once; the same seed gives the same lists.

Source of the method: matching without replacement within a caliper, Rubin, Biometrics 29, 1973;
Austin, Statistics in Medicine 33, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats, Indices
from asdf.errors import AsdfError
from asdf.extras.audit.auditing import Audit, Options, audit_recordings, feature_columns, list_rows
from asdf.extras.audit.detectors import Values, are_words
from asdf.extras.audit.measuring import Measured
from asdf.runs.seeds import generator
from asdf.tables.table import each
from asdf.trials.trial_list import TrialList

_FIRST = 0.05
_ROUNDS = 5
_MOST_MATCHES = 10
_FEWEST = 20
# Unknown values, and different words, are farther apart than any caliper.
_APART = 10.0


@dataclass(frozen=True)
class Rebalanced:
    """Rebalanced lists.

    Attributes:
        kept: Indices of the recordings that are kept, for each list.
        features: Keys of the features that were matched.
        caliper: Maximum difference of matched values, as a proportion of ranks.
        before, after: Audits of the original and of the rebalanced lists.
    """

    lists: tuple[TrialList, ...]
    kept: tuple[Indices, ...]
    features: tuple[str, ...]
    caliper: float
    before: Audit
    after: Audit

    @property
    def selected(self) -> list[TrialList]:
        """The remaining recordings of each list."""
        return [trials.select(kept) for trials, kept in zip(self.lists, self.kept, strict=True)]


def rebalance(
    lists: Sequence[TrialList],
    measured: Sequence[Sequence[Measured]],
    audit: Audit,
    options: Options,
) -> Rebalanced:
    """Match both classes of each list by the shortcuts of an audit, and audit the rest.

    If the second audit finds shortcuts, these are matched too, or more closely.

    Args:
        measured: Measurements, one per recording of each list.

    Raises:
        AsdfError: there is no shortcut, or too few recordings have a match.
    """
    if not audit.shortcuts:
        raise AsdfError("there is no shortcut: the lists need no rebalancing.")
    rows = list_rows(lists, measured)
    columns = feature_columns(rows)
    # The detector of all features has no values to match: where it alone tells, its three best do.
    alone = [key for key in each(audit.results, "feature.key") if key in columns]
    shortcuts = each(audit.shortcuts, "feature.key")
    features = [key for key in alone if key in shortcuts] or alone[:3]
    usable = np.array(each(rows, "measured.is_read"))
    result: Rebalanced | None = None
    for _ in range(_ROUNDS):
        places = np.stack([_places(columns[key]) for key in features], axis=1)
        # A matched feature that is still a shortcut is matched more closely.
        finer = 1.0 if result is None else result.caliper / 2
        kept, caliper = _match_lists(lists, places, usable, finer)
        if not kept:
            break
        parts = []
        of_parts = []
        for trials, values, indices in zip(lists, measured, kept, strict=True):
            parts.append(trials.select(indices))
            of_parts.append([values[index] for index in indices])
        after = audit_recordings(parts, of_parts, options)
        result = Rebalanced(tuple(lists), kept, tuple(features), caliper, audit, after)
        shortcuts = each(after.shortcuts, "feature.key")
        if not shortcuts:
            break
        features = list(dict.fromkeys([*features, *filter(columns.__contains__, shortcuts)]))
    # A shortcut that was not matched does not stop the lists; it is named with them.
    if result is None or set(shortcuts).intersection(result.features):
        raise AsdfError(
            f"no lists with {_FEWEST} or more recordings per class have the same "
            f"{', '.join(features)} in both classes: the classes hardly overlap. Trim, level or "
            "code the recordings of both classes alike, or record others; nothing was written."
        )
    return result


def _match_lists(
    lists: Sequence[TrialList], places: Floats, usable: np.ndarray, highest: float
) -> tuple[tuple[Indices, ...], float]:
    """Match each list within the smallest caliper that keeps enough; empty if none does.

    Args:
        highest: Largest caliper to try.
    """
    starts = np.cumsum([0, *map(len, lists)])
    for caliper in (min(_FIRST, highest), 2 * _FIRST, 4 * _FIRST):
        kept = []
        fewest = []
        for index, trials in enumerate(lists):
            part = slice(starts[index], starts[index + 1])
            chosen = _match(trials, places[part], usable[part], caliper)
            kept.append(chosen)
            fewest.append(np.bincount(trials.labels[chosen], minlength=2).min())
        if min(fewest) >= _FEWEST:
            return tuple(kept), caliper
        if caliper >= highest:
            break
    return (), 0.0


def _places(values: Values) -> Floats:
    """Return the rank of each value, from 0 to 1; different words are far apart."""
    if are_words(values):
        known_words = [value or "" for value in values]
        words = np.array(known_words, str)
        _, codes = np.unique(words, return_inverse=True)
        apart: Floats = codes.astype(np.float64) * _APART
        return apart
    numbers = np.array(values, np.float64)
    known = np.isfinite(numbers)
    places = np.full(numbers.size, -_APART)
    ordered = np.sort(numbers[known])
    # Equal numbers share the middle of their ranks.
    below = np.searchsorted(ordered, numbers[known], side="left")
    not_above = np.searchsorted(ordered, numbers[known], side="right")
    places[known] = (below + not_above) / 2 / max(1, ordered.size)
    return places


def _match(trials: TrialList, places: Floats, usable: np.ndarray, caliper: float) -> Indices:
    """Return the indices of the recordings of a list that are kept, ascending.

    Each kept recording of the smaller class has the same number of matches.
    """
    spoof = np.flatnonzero(usable & (trials.labels == 0))
    bona_fide = np.flatnonzero(usable & (trials.labels == 1))
    fewer, more = sorted([spoof, bona_fide], key=len)
    if not fewer.size:
        return np.empty(0, np.intp)
    # In random order, since those that come first have the most to choose from.
    order = generator(0, "rebalance", trials.name).permutation(fewer)
    rounds = min(_MOST_MATCHES, more.size // fewer.size)
    matches = np.full((rounds, order.size), -1)
    free = np.ones(more.size, bool)
    # All get a first match before any gets a second one.
    for number in range(rounds):
        for column, index in enumerate(order):
            differences = np.abs(places[more] - places[index])
            distances = differences.max(axis=1)
            distances[~free] = np.inf
            nearest = int(distances.argmin())
            if distances[nearest] <= caliper:
                free[nearest] = False
                matches[number, column] = more[nearest]
    return _choose(order, matches)


def _choose(order: Indices, matches: np.ndarray) -> Indices:
    """Return the kept recordings, with the number of matches that keeps the most."""
    best = np.empty(0, np.intp)
    for count in range(1, len(matches) + 1):
        so_many = matches[:count]
        complete = (so_many >= 0).all(axis=0)
        matched = so_many[:, complete].ravel()
        kept = np.concatenate([order[complete], matched])
        if kept.size > best.size:
            best = kept.astype(np.intp)
    return np.sort(best)
