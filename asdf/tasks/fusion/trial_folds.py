"""Folds for cross-validation: groups of trials that are held out together.

Invariant: all trials of a speaker are in one fold, each fold has about the same share of both
classes, and a trial's fold depends on the seed and the trials, not on the order of a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats, Integers, Labels
from asdf.errors import AsdfError
from asdf.trials.score_file import missing_class

Folds = Integers


@dataclass
class _Group:
    """Trials that stay together; `digest` gives groups of equal size a random order."""

    trials: list[int]
    counts: Floats
    digest: bytes


def make_folds(
    ids: Sequence[str],
    labels: Labels,
    speakers: Sequence[str] | None = None,
    count: int = 5,
    seed: int = 0,
) -> Folds:
    """Return the fold of each trial, (trials,), from 0 to at most `count` - 1.

    Groups are assigned from the largest to the smallest, each to the fold in which its classes are
    rarest. Without `speakers`, each trial is a group.

    Raises:
        AsdfError: a class is missing if one of the folds is left out, for example with one speaker.
    """
    groups = _groups(ids, labels, speakers, seed)
    # With fewer groups than folds, each group is a fold.
    count = min(count, len(groups))
    groups.sort(key=lambda group: (-len(group.trials), group.digest))
    totals = np.sum([group.counts for group in groups], axis=0)  # spoof, bona fide
    loads = np.zeros((count, 2))  # share of each class by fold
    folds = np.zeros(len(ids), np.int64)
    for group in groups:
        # A class without trials is refused below, and must not divide by zero here.
        shares = group.counts / np.maximum(totals, 1)
        # The sum of squared loads grows least with this fold, which balances both classes.
        fold = int(np.argmin(loads @ shares))
        loads[fold] += shares
        folds[group.trials] = fold
    _check_folds(folds, labels, count, speakers is not None)
    return folds


def _groups(
    ids: Sequence[str], labels: Labels, speakers: Sequence[str] | None, seed: int
) -> list[_Group]:
    names = ids if speakers is None else speakers
    groups: dict[str, _Group] = {}
    for trial, name in enumerate(names):
        if name not in groups:
            # File names may hold bytes that are not UTF-8.
            text = f"{seed} {name}".encode("utf-8", "surrogateescape")
            groups[name] = _Group([], np.zeros(2), hashlib.sha256(text).digest())
        group = groups[name]
        group.trials.append(trial)
        group.counts[labels[trial]] += 1
    return list(groups.values())


def _check_folds(folds: Folds, labels: Labels, count: int, by_speaker: bool) -> None:
    for fold in range(count):
        missing = missing_class(labels[folds != fold])
        if missing:
            groups = "speakers" if by_speaker else "trials"
            raise AsdfError(
                f"cross-validation is not possible: without one of {count} folds of {groups} no "
                f"trial is {missing}. Take a larger set, or fewer folds."
            )
