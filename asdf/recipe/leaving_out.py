"""`recipe.leave_out`: what training does without, and validation is then restricted to.

Invariant: no utterance with one of the left-out values is trained on, and the EER by which networks
are chosen says how they do on what they have not seen:

- the training sets lose the rows whose column has one of the values;
- a validation set retains the rows that have one of them. Where its bona fide trials have no value
  in the column (an attack), all of them stay;
- evaluation sets stay whole.

A restricted list has a name of its own, such as 'asvspoof19-dev.attack=A07,A08', in the log, in
score files and in records, so that its EER is never taken for that of the whole set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from asdf.errors import UsageError
from asdf.settings.sections import Sections
from asdf.text import and_more, did_you_mean
from asdf.trials.trial_list import TrialList

SETTING = "recipe.leave_out"
# What a column has for trials that it says nothing of.
_NO_VALUES = frozenset(("", "-"))
_SHOWN = 20
# A file's name has 255 bytes at most.
_LONGEST_NAME = 60


@dataclass(frozen=True)
class LeaveOut:
    """The values of a column that training does without."""

    column: str
    values: tuple[str, ...]

    def describe(self) -> str:
        """Return 'attack A07, A08'."""
        return f"{self.column} {and_more(self.values, _SHOWN)}"

    def training_rows(self, utterances: TrialList) -> npt.NDArray[np.intp]:
        """Return the indices of the rows that are trained on."""
        return np.flatnonzero(~self._has_value(utterances))

    def for_training(self, utterances: TrialList) -> TrialList:
        """Return the rows that are trained on, under the name of the corpus."""
        return utterances.select(self.training_rows(utterances))

    def validation_rows(self, utterances: TrialList) -> npt.NDArray[np.intp]:
        """Return the indices of the rows that are validated on.

        Raises:
            UsageError: no trial has one of the values.
        """
        has_value = self._has_value(utterances)
        if not has_value.any():
            raise UsageError(
                f"{SETTING}: the validation set {utterances.name} has no trial of "
                f"{self.describe()}, so it says nothing of what is left out."
                f"{self._known_in([utterances])} Choose values that it has, or another of "
                "recipe.validation_sets."
            )
        is_bona_fide = utterances.labels == 1
        column = self._column_of(utterances)
        values_of_bona_fide = {column[index] for index in np.flatnonzero(is_bona_fide).tolist()}
        if values_of_bona_fide <= _NO_VALUES:
            return np.flatnonzero(has_value | is_bona_fide)
        return np.flatnonzero(has_value)

    def for_validation(self, utterances: TrialList) -> TrialList:
        """Return the rows that are validated on, under a name that says so.

        Raises:
            UsageError: no trial has one of the values.
        """
        restricted = utterances.select(self.validation_rows(utterances))
        return replace(restricted, name=f"{utterances.name}.{self._short_name()}")

    def check_training(self, training: Sequence[TrialList]) -> None:
        """Check that the column and all values exist in the training sets.

        Raises:
            UsageError: names the nearest ones, or those that exist.
        """
        columns = list(dict.fromkeys(name for part in training for name in part.columns))
        if self.column not in columns:
            hint = did_you_mean(self.column, columns)
            known = f"They have {', '.join(columns)}." if columns else "They have none."
            raise UsageError(
                f"{SETTING}: the training sets have no column {self.column!r}.{hint} {known} A "
                "list of your own gets columns from Corpus(protocol=...), or has them itself."
            )
        known_values = _values_in(training, self.column)
        for value in self.values:
            if value not in known_values:
                raise UsageError(
                    f"{SETTING}: no utterance of the training sets has the {self.column} "
                    f"{value!r}.{did_you_mean(value, known_values)}{self._known_in(training)}"
                )

    def whole_parts(self, training: Sequence[TrialList]) -> list[str]:
        """Return a line on each training set without the column, of which nothing is left out."""
        lines = []
        for part in training:
            if self.column not in part.columns:
                lines.append(f"{part.name} has no column {self.column!r}: all of it is trained on")
        return lines

    def _has_value(self, utterances: TrialList) -> npt.NDArray[np.bool_]:
        left_out = frozenset(self.values)
        has_value = (value in left_out for value in self._column_of(utterances))
        return np.fromiter(has_value, np.bool_, len(utterances))

    def _column_of(self, utterances: TrialList) -> Sequence[str]:
        """Return the column; '' throughout where the list has none: none of its rows is known."""
        return utterances.columns.get(self.column, [""] * len(utterances))

    def _known_in(self, lists: Sequence[TrialList]) -> str:
        values = _values_in(lists, self.column)
        if not values:
            return f" It has no column {self.column!r}, or nothing in it."
        return f" The values of {self.column} there: {and_more(values, _SHOWN)}."

    def _short_name(self) -> str:
        """Return 'attack=A07,A08', of characters that the names of files have."""
        text = f"{self.column}={','.join(self.values)}"
        name = re.sub(r"[^\w.,=+-]", "_", text)
        if name == text and len(name) <= _LONGEST_NAME:
            return name
        # Values that look alike so written, or are too many, differ in the digest.
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{name[:_LONGEST_NAME]}-{digest}"


def left_out_of(settings: Sections) -> LeaveOut | None:
    """Return what `recipe.leave_out` says; None where nothing is left out.

    Raises:
        UsageError: it names a column and no value of it.
    """
    words = settings.recipe.leave_out
    if words is None:
        return None
    if len(words) < 2:
        raise UsageError(
            f"{SETTING} = {words!r} is a column and its values, such as ('attack', 'A07', 'A08'), "
            "or None."
        )
    return LeaveOut(words[0], words[1:])


def training_lists(settings: Sections, training: Sequence[TrialList]) -> list[TrialList]:
    """Return what is trained on of the training sets.

    Raises:
        UsageError: `recipe.leave_out` names a column or a value that they do not have.
    """
    left_out = left_out_of(settings)
    if left_out is None:
        return list(training)
    left_out.check_training(training)
    return [left_out.for_training(part) for part in training]


def validation_lists(settings: Sections, validation: Iterable[TrialList]) -> list[TrialList]:
    """Return what is validated on of the validation sets.

    Raises:
        UsageError: a set has none of the values that `recipe.leave_out` names.
    """
    left_out = left_out_of(settings)
    if left_out is None:
        return list(validation)
    return [left_out.for_validation(part) for part in validation]


def _values_in(lists: Sequence[TrialList], column: str) -> list[str]:
    """Return the values of a column, sorted, without those that say nothing."""
    values: set[str] = set()
    for part in lists:
        values.update(part.columns.get(column, ()))
    return sorted(values - _NO_VALUES)
