"""Classes of sources: the class of each trial from a column of its list, and unknown classes.

Invariant: training and evaluation follow one rule. The class of a trial is its value in the column;
bona fide trials have no class, a class of their own, or the value of the column
(`source.bona_fide`). '' and '-' are not values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from asdf.errors import UsageError
from asdf.settings.sections import Network, Recipe, Source
from asdf.text import and_more, did_you_mean
from asdf.trials.trial_list import TrialList

BONA_FIDE_CLASS = "bona fide"
"""Name of the class of bona fide trials, if they form a class."""

NO_CLASS = "-"
"""Value of a trial that has no class."""

BonaFideRule = Literal["left_out", "class", "by_column"]
BONA_FIDE_RULES = get_args(BonaFideRule)
_NO_VALUES = ("", NO_CLASS)
_SHOWN = 8


class TracingSettings(Protocol):
    """The sections that source tracing reads; a head of your own gets all sections."""

    @property
    def source(self) -> Source: ...

    @property
    def network(self) -> Network: ...

    @property
    def recipe(self) -> Recipe: ...


@dataclass(frozen=True)
class SourceClasses:
    """The classes of a network, or of an evaluation.

    Attributes:
        column: Column of trial lists with the classes.
        names: Names of the classes, in the order of a network's outputs.
        bona_fide: Class of the bona fide trials.
    """

    column: str
    names: tuple[str, ...]
    bona_fide: BonaFideRule = "left_out"


def classes_of_list(trials: TrialList, source: Source) -> SourceClasses:
    """Return the classes of a training list: from the settings, or else all its values, sorted.

    Raises:
        UsageError: the list lacks the column, or a class of the settings, or has fewer than two.
    """
    column = str(source.column)
    existing = sorted(set(values_of(trials, column, source.bona_fide)) - {NO_CLASS})
    # In the order of the settings, which is that of the network's outputs.
    names = source.classes
    if names is None:
        names = tuple(existing)
    missing = [name for name in names if name not in existing]
    if missing:
        raise UsageError(
            f"source.classes names {missing[0]!r}, but no trial of the training list has it in "
            f"the column {column}, which has {and_more(existing, _SHOWN)}."
            f"{did_you_mean(missing[0], existing)}"
        )
    if len(names) < 2:
        raise UsageError(
            f"source.column = {column!r}: the training list has {len(names)} class in it "
            f"({', '.join(names) or 'none'}), but two are needed. Choose another column, or set "
            "source.bona_fide = 'class' to make bona fide trials a class too."
        )
    return SourceClasses(column, tuple(names), source.bona_fide)


def classes_of_trials(trials: TrialList, classes: SourceClasses) -> np.ndarray:
    """Return the class index of each trial, (trials,) int64; -1 for a trial of none of them.

    Raises:
        UsageError: the list lacks the column.
    """
    indices = {name: index for index, name in enumerate(classes.names)}
    values = values_of(trials, classes.column, classes.bona_fide)
    return np.array([indices.get(value, -1) for value in values], np.int64)


def values_of(trials: TrialList, column: str, bona_fide: BonaFideRule) -> list[str]:
    """Return the class of each trial, known to the network or not; `NO_CLASS` for none.

    Raises:
        UsageError: the list lacks the column.
    """
    if column not in trials.columns:
        raise UsageError(
            f"source tracing needs the column {column!r} of {trials.name or 'the list'}, which has "
            f"{', '.join(trials.columns) or 'no columns'}. Set source.column to one of them."
        )
    values = []
    labels: Sequence[int] = trials.labels.tolist()
    for value, label in zip(trials.columns[column], labels, strict=True):
        if label == 1 and bona_fide != "by_column":
            values.append(BONA_FIDE_CLASS if bona_fide == "class" else NO_CLASS)
        else:
            values.append(NO_CLASS if value in _NO_VALUES else value)
    return values
