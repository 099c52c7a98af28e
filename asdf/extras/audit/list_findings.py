"""Problems of lists besides shortcuts: bad files, copies, shared speakers, odd labels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from asdf.arrays import Flags, Floats
from asdf.extras.audit.audited import Group, Result, Row
from asdf.extras.audit.fingerprints import same_recordings
from asdf.extras.audit.single import TIE
from asdf.tables.table import each
from asdf.trials.trial_list import TrialList

# With this number of shortcuts, more than half must contradict a label.
_LEAST_DETECTORS = 3


def bad_files(rows: Sequence[Row]) -> list[Group]:
    """Find recordings that cannot be read, are silent or very short."""
    damaged: list[str] = []
    poor: list[str] = []
    for row in rows:
        if row.measured.problem:
            kind = poor if row.measured.is_read else damaged
            kind.append(f"{row.id}: {row.measured.problem}")
    groups = []
    if damaged:
        advice = "Make them again, or remove them from the list."
        groups.append(Group("recordings that cannot be read", advice, damaged))
    if poor:
        advice = "Remove them from the list: nobody can judge them."
        groups.append(Group("recordings that are silent or very short", advice, poor))
    return groups


_COPIES = {
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


def copies(rows: Sequence[Row]) -> list[Group]:
    """Find recordings that occur in the lists more than once."""
    by_digest: defaultdict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_digest[row.measured.digest].append(index)
    exact: set[tuple[int, int]] = set()
    for indices in by_digest.values():
        # Neighbours alone: of n equal recordings, n - 1 pairs say as much as all.
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


def _where(row: Row) -> str:
    return f"{row.split}: {row.id}"


def shared_by_splits(lists: Sequence[TrialList]) -> list[Group]:
    """Find speakers and texts that occur in more than one list."""
    groups = []
    for column in ("speaker", "text"):
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
                f"{column}s. "
            ) + ("recipe.leave_out_speakers does." if column == "speaker" else "")
            groups.append(Group(f"{column}s in more than one split", advice.strip(), members))
    return groups


def attacks_of_one_language(rows: Sequence[Row]) -> list[Group]:
    """Find attacks that occur in only one of several languages."""
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


def contradicted_labels(
    results: Sequence[Result],
    labels: Flags,
    rows: Sequence[Row],
) -> list[Group]:
    """Find recordings whose label most of the shortcuts contradict."""
    shortcuts = [
        result
        for result in results
        if result.is_shortcut and result.feature.is_heard and not result.is_joint
    ]
    if len(shortcuts) < _LEAST_DETECTORS:
        return []
    scores: Floats = np.stack(each(shortcuts, "separation.scores"))
    # A detector that knows nothing of a recording gives it a tie, which is above zero.
    wrong = ((scores > 0) != labels) & (np.abs(scores) > TIE)
    votes = wrong.sum(axis=0)
    summed = np.where(labels, -scores.sum(axis=0), scores.sum(axis=0))
    # Together, the shortcuts must also make the other label ten times as likely.
    chosen = np.flatnonzero((votes > len(shortcuts) / 2) & (summed > math.log(10)))
    members = []
    for index in chosen[np.argsort(-summed[chosen], kind="stable")]:
        label = "bona fide" if labels[index] else "spoof"
        members.append(
            f"{_where(rows[index])}: {label}, against {votes[index]} of {len(shortcuts)} detectors"
        )
    if not members:
        return []
    advice = "Listen to them: labels may be wrong, or they come from another source."
    return [Group("labels that most shortcuts contradict", advice, members)]
