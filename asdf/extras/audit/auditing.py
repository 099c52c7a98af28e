"""Audit of one or several lists: shortcuts between the classes, copies, splits and bad files.

Invariant: an audit depends only on its lists and measurements: the same recordings give the same
audit, to the byte of its outputs.

Lists may be rebalanced, so that the shortcut features are distributed alike in both classes. Each
recording of the smaller class is matched with the nearest ones of the other class in its list;
unmatched recordings are dropped. A match has the same words, and its ranks of all shortcuts differ
by at most a given proportion of all recordings. The remaining recordings are audited again. A
recording stays in its list, and occurs in it once; the same seed gives the same lists.

Source of the method: matching without replacement within a caliper, Rubin, Biometrics 29, 1973;
Austin, Statistics in Medicine 33, 2014.
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from asdf.arrays import Flags, Floats, Indices
from asdf.errors import AsdfError
from asdf.extras.audit import detectors, measuring
from asdf.extras.audit.detectors import Separation, Values, are_words
from asdf.extras.audit.measuring import Feature, Measured
from asdf.metrics.bootstrap import Interval
from asdf.metrics.intervals import holm
from asdf.runs.seeds import generator
from asdf.tables.table import each
from asdf.trials.trial_list import TrialList, known_speakers

SIGNIFICANT = 0.05
# With this number of shortcuts, more than half must contradict a label.
_LEAST_DETECTORS = 3
# More digits than a float64 has are not meaningful.
_DIGITS = 15


@dataclass(frozen=True, kw_only=True)
class Options:
    """Parameters of an audit.

    Attributes:
        limit: EER below which a feature is a shortcut.
        replicates: Number of bootstrap replicates of each interval.
        permutations: Number of permutations of each test.
        joint: Whether a detector of all features together is tested too.
        progress: Function that is called with the name of the next computation.
    """

    limit: float = 0.4
    replicates: int = 1000
    permutations: int = 999
    joint: bool = True
    progress: Callable[[str], None] = lambda what: None


@dataclass(frozen=True)
class Row:
    """A recording of a list; `values` are those of its columns, its name and its sound."""

    split: str
    id: str
    label: int
    columns: Mapping[str, str]
    values: Mapping[str, float | str]
    measured: Measured


@dataclass(frozen=True)
class Result:
    """The performance of a detector that uses one feature.

    Attributes:
        p_value: Corrected p-value, over all features of its kind (Holm); None for the detector of
            all features, which is judged by its interval.
        is_shortcut: Whether it separates the classes better than the limit allows.
        values: Values of the feature, for plots.
    """

    feature: Feature
    separation: Separation
    p_value: float | None
    is_shortcut: bool
    values: Values

    @property
    def is_joint(self) -> bool:
        """Whether it is the detector of all features."""
        return self.p_value is None


@dataclass(frozen=True)
class Group:
    """Recordings or values that a finding concerns, with the finding."""

    title: str
    advice: str
    members: Sequence[str]


@dataclass(frozen=True)
class Audit:
    """All findings of an audit.

    Attributes:
        names: Names of the lists.
        counts: Numbers of audited recordings, bona fide ones and spoofs.
        speakers: Number of speakers; None if unknown.
        limit: EER below which a feature is a shortcut.
        chance: EER of random scores.
        results: Results of features that a network can hear, lowest EER first.
        unheard: Results of names and tags.
        groups: Further findings.
        labels: Whether each recording is bona fide.
    """

    names: Sequence[str]
    counts: tuple[int, int, int]
    speakers: int | None
    limit: float
    chance: Interval
    results: Sequence[Result]
    unheard: Sequence[Result]
    groups: Sequence[Group]
    labels: Flags = field(repr=False)

    @property
    def shortcuts(self) -> list[Result]:
        """Features that reveal labels to a network."""
        return [result for result in self.results if result.is_shortcut]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that a network could learn from, or that spoils a test."""
        return not self.shortcuts and not self.groups


def check_classes(bona_fide: int, spoof: int, where: str = "are in the lists") -> None:
    """Raise an AsdfError if there are fewer than two recordings of a class."""
    if min(bona_fide, spoof) < 2:
        raise AsdfError(
            f"an audit compares two classes: {bona_fide} bona fide and {spoof} spoofed recordings "
            f"{where}. Name lists with both."
        )


def audit_recordings(
    lists: Sequence[TrialList], measured: Sequence[Sequence[Measured]], options: Options = Options()
) -> Audit:
    """Audit lists whose recordings were measured.

    Args:
        lists: Splits of one corpus, which are searched for shortcuts together.
        measured: Measurements, one per recording of each list.

    Raises:
        AsdfError: fewer than two recordings of a class can be read.
    """
    rows = list_rows(lists, measured)
    usable = [row for row in rows if row.measured.is_read and row.label in (0, 1)]
    labels = np.array(each(usable, "label")) == 1
    bona_fide = int(labels.sum())
    check_classes(bona_fide, len(labels) - bona_fide, "can be read")
    # Intervals and folds are over speakers if all are known.
    speakers = known_speakers([row.columns.get("speaker", "") for row in usable])
    results = test_features(feature_columns(usable), labels, speakers, options)
    options.progress("copies")
    groups = [
        *find_bad_files_and_copies(rows, usable),
        *find_shared_by_splits(lists),
        *find_attacks_of_one_language(usable),
        *contradicted_labels(results, labels, usable),
    ]
    heard = [result for result in results if result.feature.is_heard]
    return Audit(
        names=each(lists, "name"),
        counts=(len(rows), bona_fide, len(labels) - bona_fide),
        speakers=None if speakers is None else len(set(speakers)),
        limit=options.limit,
        chance=detectors.chance(labels, options.replicates),
        results=sorted(heard, key=lambda result: result.separation.eer.value),
        unheard=[result for result in results if not result.feature.is_heard],
        groups=groups,
        labels=labels,
    )


def list_rows(lists: Sequence[TrialList], measured: Sequence[Sequence[Measured]]) -> list[Row]:
    """Return the recordings of all lists, one list after another."""
    rows = []
    for trials, of_list in zip(lists, measured, strict=True):
        for index, one in enumerate(of_list):
            name = trials.ids[index]
            columns = {column: cells[index] for column, cells in trials.columns.items()}
            folder, base = os.path.split(name)
            stem = base.split(".")[0]
            values: dict[str, float | str] = {"order": index / len(trials), "folder": folder}
            values["pattern"] = re.sub(r"\d", "#", stem)
            if numbers := re.findall(r"\d+", stem):
                values["number"] = float(numbers[-1][:_DIGITS])
            # What was measured counts before what a name or a column states.
            values = {**columns, **values, **one.values}
            rows.append(Row(trials.name, name, int(trials.labels[index]), columns, values, one))
    return rows


def feature_columns(rows: Sequence[Row]) -> dict[str, Values]:
    """Return the values of each feature that differs between any two recordings."""
    keys = dict.fromkeys(measuring.FEATURES)
    for row in rows:
        keys.update(dict.fromkeys(row.columns))
    columns: dict[str, Values] = {}
    for key in keys:
        values = [row.values.get(key) for row in rows]
        if key not in measuring.NOT_FEATURES and len(set(values)) > 1:
            columns[key] = values
    return columns


def test_features(
    columns: Mapping[str, Values], labels: Flags, speakers: Sequence[str] | None, options: Options
) -> list[Result]:
    """Return the result of each feature, with p-values corrected within heard and unheard ones."""
    features = {key: measuring.column_feature(key) for key in columns}
    singly = detectors.make_folds(list(map(str, range(len(labels)))))
    by_speaker = singly if speakers is None else detectors.make_folds(speakers)
    p_values: dict[str, float] = {}
    separations: dict[str, Separation] = {}
    for by_recording in (False, True):
        keys = [key for key, known in features.items() if known.by_recording == by_recording]
        options.progress(f"{len(keys)} features")
        groups = None if by_recording else speakers
        bins = [detectors.bins_of(columns[key]) for key in keys]
        tested = detectors.permutation_tests(bins, labels, groups, options.permutations)
        p_values.update(zip(keys, tested, strict=True))
        for key in keys:
            folds = singly if by_recording else by_speaker
            scores = detectors.score_feature(columns[key], labels, folds)
            separations[key] = detectors.separate(scores, labels, groups, options.replicates)
    results = []
    for is_heard in (True, False):
        keys = [key for key, known in features.items() if known.is_heard == is_heard]
        # Apart for names: these do not count, and must not make tests of what is heard stricter.
        adjusted = holm([p_values[key] for key in keys])
        for key, p_value in zip(keys, adjusted, strict=True):
            is_shortcut = separations[key].eer.value < options.limit and p_value < SIGNIFICANT
            found = (separations[key], p_value, is_shortcut, columns[key])
            results.append(Result(features[key], *found))
    alike = [key for key, known in features.items() if known.is_heard and not known.by_recording]
    rests = [labels[by_speaker != fold] for fold in range(int(by_speaker.max()) + 1)]
    # Nothing can be learnt where both classes do not remain, whichever fold is left out.
    is_learnt = all(rest.any() and not rest.all() for rest in rests)
    if options.joint and alike and is_learnt:
        options.progress("all features together")
        heard = {key: columns[key] for key in alike}
        scores = detectors.score_all_together(heard, labels, by_speaker)
        separation = detectors.separate(scores, labels, speakers, options.replicates)
        # Permutations would be too slow: the interval decides, which is conservative.
        is_shortcut = separation.eer.high < options.limit
        every = measuring.ALL_TOGETHER
        results.append(Result(every, separation, None, is_shortcut, scores.tolist()))
    return results


_ADVICE = {
    "recordings that cannot be read": "Make them again, or remove them from the list.",
    "recordings that are silent or very short": "Remove them from the list: nobody can judge them.",
    "pairs of one recording under both labels": (
        "One of the labels is wrong, or the spoof is a copy of the genuine recording: then keep "
        "the two in one split."
    ),
    "pairs of one recording in two splits": (
        "Remove them from one of the splits: a test on training recordings is not a test."
    ),
    "pairs of one recording under two names": (
        "Remove the copies from the list: they count several times."
    ),
}


def find_bad_files_and_copies(rows: Sequence[Row], usable: Sequence[Row]) -> list[Group]:
    """Find recordings that cannot be read, are silent or very short, or occur more than once."""
    members: dict[str, list[str]] = {title: [] for title in _ADVICE}
    damaged, poor, both_labels, two_splits, two_names = members
    for row in rows:
        if row.measured.problem:
            title = poor if row.measured.is_read else damaged
            members[title].append(f"{row.id}: {row.measured.problem}")
    by_digest: defaultdict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(usable):
        by_digest[row.measured.digest].append(index)
    exact: set[tuple[int, int]] = set()
    for indices in by_digest.values():
        # Neighbours alone: of n equal recordings, n - 1 pairs say as much as all.
        exact.update(pairwise(indices))
    alike = measuring.same_recordings(each(usable, "measured.fingerprint"))
    for pair in sorted(exact.union(alike)):
        first, second = usable[pair[0]], usable[pair[1]]
        title = two_names
        if first.label != second.label:
            title = both_labels
        elif first.split != second.split:
            title = two_splits
        kind = "the same samples" if pair in exact else "the same sound"
        members[title].append(f"{first.split}: {first.id} and {second.split}: {second.id}: {kind}")
    return [Group(title, _ADVICE[title], found) for title, found in members.items() if found]


def find_shared_by_splits(lists: Sequence[TrialList]) -> list[Group]:
    """Find speakers and texts that occur in more than one list."""
    groups = []
    for column, setting in (("speaker", " recipe.leave_out_speakers does."), ("text", "")):
        splits: defaultdict[str, list[str]] = defaultdict(list)
        for trials in lists:
            for value in sorted(set(trials.columns.get(column, ()))):
                # '-' is the field's sign for an unknown value.
                if value and value != "-":
                    splits[value].append(trials.name)
        shared = {value: names for value, names in splits.items() if len(names) > 1}
        if shared:
            members = [f"{value}: {', '.join(names)}" for value, names in sorted(shared.items())]
            advice = (
                f"Give each {column} to one split: otherwise a test says less about other "
                f"{column}s.{setting}"
            )
            groups.append(Group(f"{column}s in more than one split", advice, members))
    return groups


def find_attacks_of_one_language(rows: Sequence[Row]) -> list[Group]:
    """Find attacks that occur in only one of several languages."""
    languages: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.label == 0 and row.columns.get("attack") and row.columns.get("language"):
            languages[row.columns["attack"]].add(row.columns["language"])
    known = sorted(languages.items())
    members = [f"{attack}: {next(iter(spoken))}" for attack, spoken in known if len(spoken) == 1]
    if not members or len(set().union(*languages.values())) < 2:
        return []
    advice = "Report results by language and attack together (evaluate --by attack,language)."
    return [Group("attacks in one language only", advice, members)]


def contradicted_labels(
    results: Sequence[Result], labels: Flags, rows: Sequence[Row]
) -> list[Group]:
    """Find recordings whose label most of the shortcuts contradict."""
    found = [result for result in results if result.is_shortcut and not result.is_joint]
    shortcuts = [result for result in found if result.feature.is_heard]
    if len(shortcuts) < _LEAST_DETECTORS:
        return []
    scores: Floats = np.stack(each(shortcuts, "separation.scores"))
    # A detector that knows nothing of a recording gives it a tie, which is above zero.
    wrong = ((scores > 0) != labels) & (np.abs(scores) > detectors.TIE)
    votes = wrong.sum(axis=0)
    summed = np.where(labels, -scores.sum(axis=0), scores.sum(axis=0))
    # Together, the shortcuts must also make the other label ten times as likely.
    chosen = np.flatnonzero((votes > len(shortcuts) / 2) & (summed > math.log(10)))
    members = []
    for index in chosen[np.argsort(-summed[chosen], kind="stable")]:
        row = rows[index]
        label = "bona fide" if labels[index] else "spoof"
        against = f"against {votes[index]} of {len(shortcuts)} detectors"
        members.append(f"{row.split}: {row.id}: {label}, {against}")
    advice = "Listen to them: labels may be wrong, or they come from another source."
    return [Group("labels that most shortcuts contradict", advice, members)] if members else []


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
        AsdfError: too few recordings have a match.
    """
    rows = list_rows(lists, measured)
    columns = feature_columns(rows)
    # The detector of all features has no values to match: where it alone tells, its three best do.
    alone = [key for key in each(audit.results, "feature.key") if key in columns]
    shortcuts = each(audit.shortcuts, "feature.key")
    features = [key for key in alone if key in shortcuts] or alone[:3]
    usable = np.array(each(rows, "measured.is_read"))
    result: Rebalanced | None = None
    for _ in range(_ROUNDS):
        places = np.stack([places_of(columns[key]) for key in features], axis=1)
        # A matched feature that is still a shortcut is matched more closely.
        finer = 1.0 if result is None else result.caliper / 2
        kept, caliper = match_lists(lists, places, usable, finer)
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


def match_lists(
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
            chosen = match_classes(trials, places[part], usable[part], caliper)
            kept.append(chosen)
            fewest.append(np.bincount(trials.labels[chosen], minlength=2).min())
        if min(fewest) >= _FEWEST:
            return tuple(kept), caliper
        if caliper >= highest:
            break
    return (), 0.0


def places_of(values: Values) -> Floats:
    """Return the rank of each value, from 0 to 1; different words are far apart."""
    if are_words(values):
        _, codes = np.unique([value or "" for value in values], return_inverse=True)
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


def match_classes(trials: TrialList, places: Floats, usable: np.ndarray, caliper: float) -> Indices:
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
    return choose_matches(order, matches)


def choose_matches(order: Indices, matches: np.ndarray) -> Indices:
    """Return the kept recordings, with the number of matches that keeps the most."""
    best = np.empty(0, np.intp)
    for count in range(1, len(matches) + 1):
        complete = (matches[:count] >= 0).all(axis=0)
        kept = np.concatenate([order[complete], matches[:count, complete].ravel()])
        if kept.size > best.size:
            best = kept.astype(np.intp)
    return np.sort(best)
