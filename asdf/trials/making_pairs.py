"""Pairs of recordings made from a list that states their speakers, generators or the like.

Invariant: the pairs depend only on the list (its ids, labels and the column), so every process, run
and machine has the same trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from asdf.errors import AsdfError, UsageError
from asdf.runs.seeds import generator
from asdf.trials.references import REFERENCE, References, pair_name
from asdf.trials.trial_list import TrialList

_UNKNOWN = ("", "-")


@dataclass(frozen=True)
class MadePairs:
    """Pairs made from a list, and the number of its recordings in no pair."""

    trials: TrialList
    left_out: int


def make_pairs(trials: TrialList, how: str) -> MadePairs:
    """Return the pairs of a list made as `how` describes.

    'genuine:COLUMN' pairs each recording with a genuine one of the same value, such as its speaker;
    labels stay. 'same:COLUMN' pairs each recording that has a value, such as its generator, with
    another one of this value (label 1) and with one of another value (label 0). Recordings without
    a partner are left out.

    Raises:
        UsageError: `how` is neither, the list lacks the column, or already names references.
        AsdfError: no pair can be made.
    """
    kind, _, column = how.partition(":")
    if kind not in _KINDS or not column:
        raise UsageError(f"pairs = {how!r}: give 'genuine:COLUMN' or 'same:COLUMN'.")
    if column not in trials.columns:
        raise UsageError(
            f"pairs = {how!r}: {trials.name or 'the list'} has no column {column!r}. It has "
            f"{', '.join(trials.columns) or 'none'}."
        )
    if trials.references is not None:
        raise UsageError(
            f"pairs = {how!r}: {trials.name or 'the list'} has a column {REFERENCE!r}, which names "
            "the pairs already. Leave one of them out."
        )
    draws = generator(0, f"pairs {how} {trials.digest()}")
    made = _KINDS[kind](trials, column, draws)
    if not len(made):
        raise AsdfError(
            f"pairs = {how!r}: no recording of {trials.name or 'the list'} has a partner: check "
            f"the values of {column!r}."
        )
    return MadePairs(made, len(trials) - len(set(made.recordings())))


def _genuine(trials: TrialList, column: str, draws: Generator) -> TrialList:
    values = trials.columns[column]
    genuine: dict[str, list[int]] = {}
    for index in np.flatnonzero(trials.labels == 1).tolist():
        genuine.setdefault(values[index], []).append(index)
    tested = []
    references = []
    for index, value in enumerate(values):
        chosen = _draw_other(genuine.get(value, []), index, draws)
        if value not in _UNKNOWN and chosen is not None:
            tested.append(index)
            references.append(trials.ids[chosen])
    return _with_references(trials.select(np.array(tested, np.int64)), references)


def _same(trials: TrialList, column: str, draws: Generator) -> TrialList:
    values = trials.columns[column]
    known = [index for index, value in enumerate(values) if value not in _UNKNOWN]
    of_value: dict[str, list[int]] = {}
    for index in known:
        of_value.setdefault(values[index], []).append(index)
    ordered = sorted(of_value)
    positions = {value: position for position, value in enumerate(ordered)}
    tested = []
    references = []
    labels = []
    for index in known:
        alike = _draw_other(of_value[values[index]], index, draws)
        if alike is None or len(ordered) == 1:
            continue
        # All other values are equally likely, however many recordings each has.
        position = int(draws.integers(len(ordered) - 1))
        # The own value is skipped, so that one draw suffices.
        position += position >= positions[values[index]]
        unlike = of_value[ordered[position]]
        other = unlike[int(draws.integers(len(unlike)))]
        tested += [index, index]
        references += [trials.ids[alike], trials.ids[other]]
        labels += [1, 0]
    chosen = trials.select(np.array(tested, np.int64))
    relabelled = replace(chosen, labels=np.array(labels, np.int8))
    names = list(map(pair_name, relabelled.ids, references))
    ends = np.array([1 + len(reference) for reference in references], np.int32)
    return _with_references(replace(relabelled, ids=names), references, ends)


def _draw_other(candidates: Sequence[int], index: int, draws: Generator) -> int | None:
    """Draw one of the candidates other than `index`; None if there is none."""
    if not candidates or list(candidates) == [index]:
        return None
    # There is another candidate, so that a draw hits one sooner or later.
    while True:
        drawn = candidates[int(draws.integers(len(candidates)))]
        if drawn != index:
            return drawn


def _with_references(
    trials: TrialList, references: list[str], ends: np.ndarray | None = None
) -> TrialList:
    columns = {**trials.columns, REFERENCE: references}
    named = References.without_lines(references)
    if ends is not None:
        named = replace(named, ends=ends)
    return replace(trials, columns=columns, references=named)


_KINDS: dict[str, Callable[[TrialList, str, Generator], TrialList]] = {
    "genuine": _genuine,
    "same": _same,
}
