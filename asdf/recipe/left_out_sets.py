"""Restrictions of validation and evaluation sets if training leaves out data.

Invariant: no training data is evaluated, and no network is chosen on evaluation data:

- with `recipe.leave_out`, validation sets are restricted to the left-out part, and evaluation sets
stay whole;
- with `recipe.evaluate_left_out`, evaluation sets are restricted to it, and validation sets to the
rest: the rows that training would have used. Recordings used in training are removed from both,
since the sets may be training sets themselves, and so are duplicates.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from asdf.arrays import Indices
from asdf.errors import AsdfError
from asdf.recipe.leaving_out import (
    LeaveOut,
    bona_fide_speakers,
    left_out_of,
    training_lists,
)
from asdf.settings.sections import Recipe
from asdf.trials.trial_list import TrialList, same_recording

Rows = Indices


class Part(NamedTuple):
    """A part of a list with its own name, and its rows in the list."""

    utterances: TrialList
    rows: Rows


@dataclass(frozen=True)
class SetParts:
    """Rules by which lists are restricted.

    Attributes:
        training: Lists of the whole training sets.
    """

    recipe: Recipe
    left_out: LeaveOut
    training: tuple[TrialList, ...]

    @property
    def evaluates(self) -> bool:
        """Whether evaluation sets are restricted to the left-out part, not validation sets."""
        return self.recipe.evaluate_left_out

    def of_validation(self, utterances: TrialList) -> Part:
        """Return the part of a set for validation.

        Raises:
            UsageError: nothing in the set is left out.
        """
        if not self.evaluates:
            rows = self.left_out.left_out_rows(utterances, self._heard)
            return _part(utterances, rows, self.left_out.short_name)
        rows = self._unheard(utterances, self.left_out.training_rows(utterances))
        return _part(utterances, rows, f"without-{self.left_out.short_name}")

    def of_evaluation(self, utterances: TrialList) -> Part:
        """Return the part of a set for evaluation: all of it, or the left-out part.

        Raises:
            UsageError: nothing in the set is left out.
        """
        if not self.evaluates:
            return Part(utterances, np.arange(len(utterances)))
        rows = self.left_out.left_out_rows(utterances, self._heard, "evaluation")
        part = _part(utterances, self._unheard(utterances, rows), self.left_out.short_name)
        check_unheard(part.utterances, training_lists(self.recipe, self.training))
        return part

    @cached_property
    def _heard(self) -> Collection[str]:
        """The speakers of bona fide utterances in the whole training sets."""
        return bona_fide_speakers(self.training) if self.left_out.speakers else ()

    @cached_property
    def _trained(self) -> frozenset[str]:
        """The paths of the recordings that are used for training."""
        paths: list[str] = []
        for part in training_lists(self.recipe, self.training):
            paths += recordings(part)
        return frozenset(paths)

    def _unheard(self, utterances: TrialList, rows: Rows) -> Rows:
        """Return those of `rows` whose recordings are not used for training, without duplicates."""
        passed = set(self._trained)
        chosen = []
        paths = list(recordings(utterances))
        for row in rows.tolist():
            if paths[row] not in passed:
                chosen.append(row)
                passed.add(paths[row])
        return np.array(chosen, np.intp)


def set_parts_of(recipe: Recipe, training: Sequence[TrialList]) -> SetParts | None:
    """Return the rules by which lists are restricted; None if nothing is left out.

    Args:
        training: Lists of the whole training sets.

    Raises:
        UsageError: the settings contradict each other.
    """
    left_out = left_out_of(recipe)
    return None if left_out is None else SetParts(recipe, left_out, tuple(training))


def validation_lists(
    recipe: Recipe,
    validation: Iterable[TrialList],
    training: Sequence[TrialList] = (),
) -> list[TrialList]:
    """Return the parts of the validation sets for validation.

    Args:
        training: Lists of the whole training sets.

    Raises:
        UsageError: a set contains nothing that is left out.
    """
    parts = set_parts_of(recipe, training)
    if parts is None:
        return list(validation)
    return [parts.of_validation(whole).utterances for whole in validation]


def evaluation_lists(
    recipe: Recipe,
    evaluation: Iterable[TrialList],
    training: Sequence[TrialList],
) -> list[TrialList]:
    """Return the parts of the evaluation sets for evaluation; see `validation_lists`."""
    parts = set_parts_of(recipe, training)
    if parts is None:
        return list(evaluation)
    return [parts.of_evaluation(whole).utterances for whole in evaluation]


def evaluated_name(recipe: Recipe, name: str) -> str:
    """Return the name in files and tables of the evaluated part of a set."""
    left_out = left_out_of(recipe)
    if left_out is None or not recipe.evaluate_left_out:
        return name
    return f"{name}.{left_out.short_name}"


def needs_training_lists(recipe: Recipe) -> bool:
    """Whether the left-out part of a list depends on the training sets."""
    return recipe.evaluate_left_out or bool(recipe.leave_out and recipe.leave_out_speakers)


def recordings(utterances: TrialList) -> Iterator[str]:
    """Yield the normalised paths of a list's recordings."""
    for index in range(len(utterances)):
        yield same_recording(os.fspath(utterances.path(index)))


def check_unheard(evaluated: TrialList, training: Sequence[TrialList]) -> None:
    """Check that no training data is evaluated.

    Args:
        training: Lists that are used for training.

    Raises:
        AsdfError: a recording is in both.
    """
    trained: set[str] = set()
    for part in training:
        trained.update(recordings(part))
    shared = trained.intersection(recordings(evaluated))
    if shared:
        raise AsdfError(
            f"{len(shared)} recordings of {evaluated.name} are trained on, such as {min(shared)}: "
            "results on them do not test what is left out."
        )


def _part(utterances: TrialList, rows: Rows, short_name: str) -> Part:
    part = replace(utterances.select(rows), name=f"{utterances.name}.{short_name}")
    return Part(part, rows)
