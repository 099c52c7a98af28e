"""An audit of one or several lists: shortcuts between the classes, copies, splits and bad files.

Invariant: an audit is a function of its lists and of what was measured: the same recordings give
the same audit, to the byte of its outputs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from asdf.arrays import Flags, Floats, Indices
from asdf.audit.features import FEATURES, NOT_FEATURES, Feature, column_feature
from asdf.audit.fingerprints import same_recordings
from asdf.audit.measuring import Measured, name_values
from asdf.audit.single import (
    Separation,
    Values,
    bins_of,
    chance,
    holm,
    make_folds,
    permutation_tests,
    score_all_together,
    score_feature,
    separate,
)
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import Interval
from asdf.tables.table import each
from asdf.trials.trial_list import TrialList

SIGNIFICANT = 0.05
# Of so many shortcuts, more than half have to speak against a label.
_LEAST_DETECTORS = 3
_JOINT = Feature("all", "all that a network hears", "time", "Close the shortcuts above first.")

PUBLISHED = {
    "asvspoof19": {
        "leading_silence": (0.151, "Müller et al., 2021: the leading silence of ASVspoof 2019 LA")
    }
}
"""What papers found, by corpus and feature: EER and source."""


@dataclass(frozen=True)
class Result:
    """What the detector of one feature is worth.

    Attributes:
        p_value: P value that holds for all features of its kind together (Holm); None of the
            detector of all features, which its interval judges.
        is_shortcut: Whether it tells the classes apart better than the limit allows.
        published: EER that a paper found, and the paper; None where none is known.
        values: Values of the feature, for pictures.
    """

    feature: Feature
    separation: Separation
    p_value: float | None
    is_shortcut: bool
    published: tuple[float, str] | None
    values: Values


@dataclass(frozen=True)
class Group:
    """Recordings or values that a finding is about, and what is said of them."""

    title: str
    advice: str
    members: Sequence[str]


@dataclass(frozen=True)
class Audit:
    """All that an audit has found.

    Attributes:
        names: Names of the lists.
        counts: Recordings, bona fide ones and spoofs that were looked at.
        speakers: Number of speakers; None where they are not known.
        limit: EER below which a feature is a shortcut.
        chance: EER of scores that know nothing.
        results: Results of what a network hears, the lowest EER first.
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
        """Features that give labels away to a network."""
        return [result for result in self.results if result.is_shortcut]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that a network could learn from, or that spoils a test."""
        return not self.shortcuts and not self.groups


@dataclass(frozen=True, kw_only=True)
class Options:
    """How an audit is made.

    Attributes:
        limit: EER below which a feature is a shortcut.
        replicates: Replicates of each interval.
        permutations: Permutations of each test.
        joint: Whether all features together are a detector as well.
        published: Name of the corpus, to compare with papers.
        progress: Function called with the name of what is computed next.
    """

    limit: float = 0.4
    replicates: int = 1000
    permutations: int = 999
    joint: bool = True
    published: str = ""
    progress: Callable[[str], None] = lambda what: None


def audit_recordings(
    lists: Sequence[TrialList],
    measured: Sequence[Sequence[Measured]],
    options: Options = Options(),
) -> Audit:
    """Audit lists whose recordings were measured.

    Args:
        lists: Splits of one corpus. Shortcuts are looked for in all of them together.
        measured: What was measured, a value per recording of each list.

    Raises:
        AsdfError: fewer than two recordings of a class can be read.
        UsageError: a package is missing.
    """
    rows = _rows(lists, measured)
    usable = [row for row in rows if row.measured.is_read and row.label in (0, 1)]
    labels = np.array(each(usable, "label")) == 1
    if min(int(labels.sum()), int((~labels).sum())) < 2:
        raise AsdfError(
            f"an audit compares two classes: {int(labels.sum())} bona fide and "
            f"{int((~labels).sum())} spoofed recordings can be read. Name lists with both."
        )
    columns = _columns(usable)
    speakers = _speakers(usable)
    results = _test_features(columns, labels, speakers, options)
    options.progress("copies")
    groups = [
        *_bad_files(rows),
        *_copies(usable),
        *_splits(lists),
        *_languages(usable),
        *_contradicted(results, labels, usable),
    ]
    heard = sorted(
        (result for result in results if result.feature.is_heard),
        key=lambda result: result.separation.eer.value,
    )
    return Audit(
        names=each(lists, "name"),
        counts=(len(rows), int(labels.sum()), int((~labels).sum())),
        speakers=None if speakers is None else len(set(speakers)),
        limit=options.limit,
        chance=chance(labels, options.replicates),
        results=heard,
        unheard=[result for result in results if not result.feature.is_heard],
        groups=groups,
        labels=labels,
    )


@dataclass(frozen=True)
class _Row:
    """A recording of a list."""

    split: str
    id: str
    label: int
    columns: Mapping[str, str]
    names: Mapping[str, float | str]
    measured: Measured


def _rows(lists: Sequence[TrialList], measured: Sequence[Sequence[Measured]]) -> list[_Row]:
    rows = []
    for trials, of_list in zip(lists, measured, strict=True):
        names = name_values(trials.ids)
        for index, one in enumerate(of_list):
            columns = {name: values[index] for name, values in trials.columns.items()}
            row = _Row(
                trials.name,
                trials.ids[index],
                int(trials.labels[index]),
                columns,
                names[index],
                one,
            )
            rows.append(row)
    return rows


def _columns(rows: Sequence[_Row]) -> dict[str, Values]:
    """Return the values of each feature that differs between any two recordings."""
    keys = dict.fromkeys(FEATURES)
    for row in rows:
        keys.update(dict.fromkeys(row.columns))
    columns: dict[str, Values] = {}
    for key in keys:
        if key in NOT_FEATURES:
            continue
        values: list[float | str | None] = []
        for row in rows:
            value = row.measured.values.get(key, row.names.get(key, row.columns.get(key)))
            values.append(value)
        if len(set(values)) > 1:
            columns[key] = values
    return columns


def _speakers(rows: Sequence[_Row]) -> list[str] | None:
    """Return the speaker of each recording; None where they are not known, or only one is."""
    speakers = [row.columns.get("speaker", "") for row in rows]
    return speakers if all(speakers) and len(set(speakers)) > 1 else None


def _test_features(
    columns: Mapping[str, Values], labels: Flags, speakers: list[str] | None, options: Options
) -> list[Result]:
    """Return the result of each feature; p-values hold for all that are heard, or are not."""
    singly = make_folds(list(map(str, range(len(labels)))))
    by_speaker = singly if speakers is None else make_folds(speakers)
    p_values: dict[str, float] = {}
    separations: dict[str, Separation] = {}
    for by_recording in (False, True):
        keys = [key for key in columns if column_feature(key).by_recording == by_recording]
        options.progress(f"{len(keys)} features")
        groups = None if by_recording else speakers
        bins = [bins_of(columns[key]) for key in keys]
        tested = permutation_tests(bins, labels, groups, options.permutations)
        p_values.update(zip(keys, tested, strict=True))
        for key in keys:
            scores = score_feature(columns[key], labels, singly if by_recording else by_speaker)
            separations[key] = separate(scores, labels, groups, options.replicates)
    results = []
    for is_heard in (True, False):
        keys = [key for key in columns if column_feature(key).is_heard == is_heard]
        adjusted = holm(list(map(p_values.__getitem__, keys)))
        for key, p_value in zip(keys, adjusted, strict=True):
            feature = column_feature(key)
            separation = separations[key]
            is_shortcut = separation.eer.value < options.limit and p_value < SIGNIFICANT
            known = PUBLISHED.get(options.published, {}).get(key)
            results.append(Result(feature, separation, p_value, is_shortcut, known, columns[key]))
    heard = {
        key: values
        for key, values in columns.items()
        if column_feature(key).is_heard and not column_feature(key).by_recording
    }
    if options.joint and heard and _has_both(labels, by_speaker):
        options.progress("all features together")
        scores = score_all_together(heard, labels, by_speaker)
        separation = separate(scores, labels, speakers, options.replicates)
        # Too slow to be permuted: its interval decides, which is on the safe side.
        is_shortcut = separation.eer.high < options.limit
        results.append(Result(_JOINT, separation, None, is_shortcut, None, scores.tolist()))
    return results


def _has_both(labels: Flags, folds: Indices) -> bool:
    """Return whether both classes are left whichever fold is left out."""
    for fold in range(int(folds.max()) + 1):
        rest = labels[folds != fold]
        if rest.all() or not rest.any():
            return False
    return True


def _bad_files(rows: Sequence[_Row]) -> list[Group]:
    damaged: list[str] = []
    poor: list[str] = []
    for row in rows:
        if row.measured.problem:
            kind = poor if row.measured.is_read else damaged
            kind.append(f"{row.id}: {row.measured.problem}")
    groups = []
    if damaged:
        advice = "Make them again, or take them off the list."
        groups.append(Group("recordings that cannot be read", advice, damaged))
    if poor:
        advice = "Take them off the list: nobody can judge them."
        groups.append(Group("recordings that are silent or very short", advice, poor))
    return groups


_COPIES = {
    "pairs of one recording under both labels": (
        "One of the labels is wrong, or the spoof is a copy of the genuine recording: then keep "
        "the two in one split."
    ),
    "pairs of one recording in two splits": (
        "Take them out of one of the splits: a test on training recordings is none."
    ),
    "pairs of one recording under two names": (
        "Take the copies off the list: they count several times."
    ),
}


def _copies(rows: Sequence[_Row]) -> list[Group]:
    """Find recordings that stand in the lists more than once."""
    by_digest: defaultdict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_digest[row.measured.digest].append(index)
    exact: set[tuple[int, int]] = set()
    for indices in by_digest.values():
        exact.update(pairwise(indices))
    alike = set(same_recordings(each(rows, "measured.fingerprint")))
    both, across, within = _COPIES
    members: dict[str, list[str]] = {title: [] for title in _COPIES}
    for pair in sorted(exact | alike):
        first = rows[pair[0]]
        second = rows[pair[1]]
        title = within
        if first.label != second.label:
            title = both
        elif first.split != second.split:
            title = across
        kind = "the same samples" if pair in exact else "the same sound"
        members[title].append(f"{_where(first)} and {_where(second)}: {kind}")
    return [Group(title, _COPIES[title], found) for title, found in members.items() if found]


def _where(row: _Row) -> str:
    return f"{row.split}: {row.id}"


def _splits(lists: Sequence[TrialList]) -> list[Group]:
    """Find speakers and texts that stand in more than one list."""
    groups = []
    for column in ("speaker", "text"):
        splits: defaultdict[str, list[str]] = defaultdict(list)
        for trials in lists:
            for value in sorted(set(trials.columns.get(column, ()))):
                if value and value != "-":
                    splits[value].append(trials.name)
        shared = {value: names for value, names in splits.items() if len(names) > 1}
        if shared:
            members = [f"{value}: {', '.join(names)}" for value, names in sorted(shared.items())]
            advice = (
                f"Give each {column} to one split: else a test says less of other {column}s. "
                + ("recipe.leave_out_speakers does." if column == "speaker" else "")
            )
            groups.append(Group(f"{column}s in more than one split", advice.strip(), members))
    return groups


def _languages(rows: Sequence[_Row]) -> list[Group]:
    """Find attacks that were made in one of several languages only."""
    languages: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.label == 0 and row.columns.get("language"):
            languages[row.columns.get("attack", "")].add(row.columns["language"])
    languages.pop("", None)
    known = set().union(*languages.values()) if languages else set()
    single = sorted(attack for attack, of in languages.items() if len(of) == 1)
    if len(known) < 2 or not single:
        return []
    members = [f"{attack}: {next(iter(languages[attack]))}" for attack in single]
    advice = "Report results by language and attack together (evaluate --by attack,language)."
    return [Group("attacks in one language only", advice, members)]


def _contradicted(results: Sequence[Result], labels: Flags, rows: Sequence[_Row]) -> list[Group]:
    """Find recordings whose label most of the shortcuts contradict."""
    shortcuts = [
        result
        for result in results
        if result.is_shortcut and result.feature.is_heard and result.feature is not _JOINT
    ]
    if len(shortcuts) < _LEAST_DETECTORS:
        return []
    scores: Floats = np.stack(each(shortcuts, "separation.scores"))
    wrong = ((scores > 0) != labels) & (scores != 0)
    votes = wrong.sum(axis=0)
    summed = np.where(labels, -scores.sum(axis=0), scores.sum(axis=0))
    chosen = np.flatnonzero((votes > len(shortcuts) / 2) & (summed > math.log(10)))
    members = []
    for index in chosen[np.argsort(-summed[chosen], kind="stable")]:
        label = "bona fide" if labels[index] else "spoof"
        members.append(
            f"{_where(rows[index])}: {label}, against {votes[index]} of {len(shortcuts)} detectors"
        )
    if not members:
        return []
    advice = "Listen to them: labels may be wrong, or they come from elsewhere."
    return [Group("labels that most shortcuts contradict", advice, members)]


def as_record(audit: Audit) -> dict[str, Any]:
    """Return an audit as plain values."""
    total, bona_fide, spoof = audit.counts
    return {
        "lists": list(audit.names),
        "recordings": total,
        "bona_fide": bona_fide,
        "spoof": spoof,
        "speakers": audit.speakers,
        "limit": audit.limit,
        "chance_eer": [audit.chance.low, audit.chance.high],
        "is_clean": audit.is_clean,
        "features": list(map(_result_record, audit.results)),
        "names": list(map(_result_record, audit.unheard)),
        "findings": [
            {"finding": group.title, "advice": group.advice, "members": list(group.members)}
            for group in audit.groups
        ],
    }


def _result_record(result: Result) -> dict[str, Any]:
    eer = result.separation.eer
    return {
        "feature": result.feature.key,
        "eer": eer.value,
        "interval": [eer.low, eer.high],
        "auc": result.separation.auc,
        "p_value": result.p_value,
        "is_shortcut": result.is_shortcut,
        "advice": result.feature.advice if result.is_shortcut else "",
        "settings": result.feature.settings if result.is_shortcut else "",
        "published": list(result.published) if result.published else None,
    }
