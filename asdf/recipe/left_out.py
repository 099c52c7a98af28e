"""Data that training leaves out (`recipe.leave_out`, `recipe.leave_out_speakers`).

Invariants: no utterance with a left-out value or speaker is used for training, no training data is
evaluated, and no network is chosen on evaluation data.

The left-out part of a list for validation consists of the rows with one of the values; if bona fide
trials have no value in the column (an attack), all of them count. With speakers it is, of these,
the bona fide trials of the speakers, and the spoofs by them or by a speaker without bona fide
utterances in the training sets, such as a synthesiser's voice. A restricted list has its own name,
such as 'asvspoof19-dev.attack=A07,A08', in the log, in score files and in records, so that its EER
is never mistaken for that of the whole set.

With `recipe.leave_out`, validation sets are restricted to the left-out part, and evaluation sets
stay whole. With `recipe.evaluate_left_out`, evaluation sets are restricted to it, and validation
sets to the rest: the rows that training would have used. Recordings used in training are removed
from both, since the sets may be training sets themselves, and so are duplicates.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from asdf.arrays import Flags, Indices
from asdf.errors import UsageError
from asdf.settings.sections import Recipe
from asdf.text import and_more, did_you_mean
from asdf.trials.trial_list import TrialList, same_recording

SETTING = "recipe.leave_out"
SPEAKERS_SETTING = "recipe.leave_out_speakers"
SPEAKER = "speaker"
NO_VALUES = frozenset(("", "-"))
"""Values that mean unknown in a column."""
_SHOWN = 20
# A file name has at most 255 bytes.
_LONGEST_NAME = 60


class Part(NamedTuple):
    """A part of a list, with its own name if it is not the whole, and its rows in the list."""

    utterances: TrialList
    rows: Indices


@dataclass(frozen=True)
class LeaveOut:
    """The values of a column, and the speakers, that training leaves out.

    Attributes:
        setting: Setting that lists the values, for messages.
    """

    column: str
    values: tuple[str, ...]
    speakers: tuple[str, ...] = ()
    setting: str = SETTING

    def describe(self) -> str:
        """Return 'attack A07, A08', or 'attack A07, A08 and speaker s1, s2'."""
        words = f"{self.column} {and_more(self.values, _SHOWN)}"
        if self.speakers:
            words += f" and {SPEAKER} {and_more(self.speakers, _SHOWN)}"
        return words

    @property
    def short_name(self) -> str:
        """'attack=A07,A08', or 'attack=A07.speaker=s', in characters valid in file names."""
        text = f"{self.column}={','.join(self.values)}"
        if self.speakers:
            text += f".{SPEAKER}={','.join(self.speakers)}"
        name = re.sub(r"[^\w.,=+-]", "_", text)
        if name == text and len(name) <= _LONGEST_NAME:
            return name
        # The digest distinguishes values that would look alike, or are too many.
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{name[:_LONGEST_NAME]}-{digest}"

    def training_rows(self, utterances: TrialList) -> Indices:
        """Return the indices of the rows that are used for training."""
        left_out = _has(utterances, self.column, self.values)
        left_out |= _has(utterances, SPEAKER, self.speakers)
        return np.flatnonzero(~left_out)

    def left_out_rows(
        self, utterances: TrialList, known_speakers: Collection[str] = (), kind: str = "validation"
    ) -> Indices:
        """Return the indices of the left-out rows.

        Args:
            known_speakers: Speakers of bona fide utterances in the whole training sets.
            kind: Kind of the set, for the message.

        Raises:
            UsageError: no trial has one of the values.
        """
        rows = _has(utterances, self.column, self.values)
        if not rows.any():
            raise UsageError(
                f"{self.setting}: the {kind} set {utterances.name} has no trial of {self.column} "
                f"{and_more(self.values, _SHOWN)}, so it cannot measure what is left "
                f"out.{_known_values([utterances], self.column)} Choose values that it contains, "
                f"or another of recipe.{kind}_sets."
            )
        is_bona_fide = utterances.labels == 1
        column = _column_of(utterances, self.column)
        if {column[row] for row in np.flatnonzero(is_bona_fide).tolist()} <= NO_VALUES:
            rows |= is_bona_fide
        if self.speakers:
            by_known = _has(utterances, SPEAKER, known_speakers)
            rows &= _has(utterances, SPEAKER, self.speakers) | (~is_bona_fide & ~by_known)
        return np.flatnonzero(rows)

    def check_training(self, training: Sequence[TrialList]) -> None:
        """Check that the columns, all values and all speakers exist in the training sets.

        Raises:
            UsageError: something is missing; the message names the closest ones, or those that
                exist.
        """
        columns = list(dict.fromkeys(name for part in training for name in part.columns))
        left_out = [(self.setting, self.column, self.values)]
        if self.speakers:
            left_out.append((SPEAKERS_SETTING, SPEAKER, self.speakers))
        for setting, column, values in left_out:
            if column not in columns:
                hint = did_you_mean(column, columns)
                known = f"They have {', '.join(columns)}." if columns else "They have none."
                raise UsageError(
                    f"{setting}: the training sets have no column {column!r}.{hint} {known} Your "
                    "own list gets columns from Corpus(protocol=...), or contains them itself."
                )
            known_values = values_in(training, column)
            for value in values:
                if value not in known_values:
                    raise UsageError(
                        f"{setting}: no utterance of the training sets has the {column} {value!r}."
                        f"{did_you_mean(value, known_values)}{_known_values(training, column)}"
                    )

    def whole_parts(self, training: Sequence[TrialList]) -> list[str]:
        """Return a line for each training set without the column, which is used completely."""
        words = f"has no column {self.column!r}: all of it is trained on"
        return [f"{part.name} {words}" for part in training if self.column not in part.columns]


def left_out_of(recipe: Recipe) -> LeaveOut | None:
    """Return what the settings leave out; None if nothing.

    Speakers without other values are the values of the column 'speaker'.

    Raises:
        UsageError: `recipe.leave_out` has a column without values, speakers are given twice, or
            nothing is left out and `recipe.evaluate_left_out` is set.
    """
    words = recipe.leave_out
    speakers = recipe.leave_out_speakers
    if words is None:
        if speakers:
            return LeaveOut(SPEAKER, speakers, setting=SPEAKERS_SETTING)
        if recipe.evaluate_left_out:
            raise UsageError(
                f"recipe.evaluate_left_out = True, but nothing is left out: set {SETTING}, "
                f"{SPEAKERS_SETTING} or both."
            )
        return None
    if len(words) < 2:
        raise UsageError(
            f"{SETTING} = {words!r} must be a column and values, such as ('attack', 'A07', 'A08'), "
            "or None."
        )
    if speakers and words[0] == SPEAKER:
        raise UsageError(
            f"{SETTING} = {words!r} and {SPEAKERS_SETTING} = {speakers!r} both name speakers: name "
            f"all of them in {SPEAKERS_SETTING}."
        )
    return LeaveOut(words[0], words[1:], speakers)


def needs_training_lists(recipe: Recipe) -> bool:
    """Whether the left-out part of a list depends on the training sets."""
    return recipe.evaluate_left_out or bool(recipe.leave_out and recipe.leave_out_speakers)


def evaluated_name(recipe: Recipe, name: str) -> str:
    """Return the name in files and tables of the evaluated part of a set."""
    left_out = left_out_of(recipe) if recipe.evaluate_left_out else None
    return name if left_out is None else f"{name}.{left_out.short_name}"


class UsedSets:
    """The lists that stages have read, by what the settings use them for, and the used parts.

    A part is the whole set, unless the settings leave something out.

    Attributes:
        training: Whole training sets.
        has_training: Whether all of them were read; in a dry run some may be missing.
        knows_parts: Whether the parts for validation and evaluation can be told.

    Raises:
        UsageError: the settings contradict each other; a left-out column, value or speaker does
            not exist in the training sets; or nothing is left out of a set that shall measure it.
    """

    def __init__(self, recipe: Recipe, lists: Iterable[TrialList]) -> None:
        self._by_name = {utterances.name: utterances for utterances in lists}
        self._recipe = recipe
        self.training = self._read(recipe.training_sets)
        self.has_training = len(self.training) == len(recipe.training_sets)
        self.knows_parts = self.has_training or not needs_training_lists(recipe)

    def _read(self, names: Iterable[str]) -> list[TrialList]:
        return [self._by_name[name] for name in names if name in self._by_name]

    @cached_property
    def left_out(self) -> LeaveOut | None:
        """What the settings leave out; None if nothing."""
        return left_out_of(self._recipe)

    def trained(self) -> list[TrialList]:
        """Return the parts for training."""
        left_out = self.left_out
        if left_out is None:
            return self.training
        left_out.check_training(self.training)
        return [part.select(left_out.training_rows(part)) for part in self.training]

    def validated(self, restricted: bool = True) -> list[TrialList]:
        """Return the parts for validation, or the whole sets."""
        lists = self._read(self._recipe.validated_sets)
        return [self.of_validation(one).utterances for one in lists] if restricted else lists

    def evaluated(self, restricted: bool = True) -> list[TrialList]:
        """Return the parts for evaluation, or the whole sets."""
        lists = self._read(self._recipe.evaluation_sets)
        return [self.of_evaluation(one).utterances for one in lists] if restricted else lists

    def of_validation(self, utterances: TrialList) -> Part:
        """Return the part of a set for validation: the left-out one, or if that is evaluated, the
        rest.
        """
        left_out = self.left_out
        if left_out is None:
            return Part(utterances, np.arange(len(utterances)))
        if self._recipe.evaluate_left_out:
            rows = self._untrained(utterances, left_out.training_rows(utterances))
            return _part(utterances, rows, f"without-{left_out.short_name}")
        rows = left_out.left_out_rows(utterances, self._training_speakers)
        return _part(utterances, rows, left_out.short_name)

    def of_evaluation(self, utterances: TrialList) -> Part:
        """Return the part of a set for evaluation: all of it, or the left-out part."""
        left_out = self.left_out
        if left_out is None or not self._recipe.evaluate_left_out:
            return Part(utterances, np.arange(len(utterances)))
        rows = left_out.left_out_rows(utterances, self._training_speakers, "evaluation")
        return _part(utterances, self._untrained(utterances, rows), left_out.short_name)

    @cached_property
    def _training_speakers(self) -> Collection[str]:
        """The speakers of bona fide utterances in the whole training sets."""
        return bona_fide_speakers(self.training) if self._recipe.leave_out_speakers else ()

    @cached_property
    def _trained(self) -> frozenset[str]:
        """The paths of the recordings that are used for training."""
        return frozenset(path for part in self.trained() for path in _recordings(part))

    def _untrained(self, utterances: TrialList, rows: Indices) -> Indices:
        """Return those of `rows` whose recordings are not used for training, without duplicates."""
        passed = set(self._trained)
        chosen = []
        paths = _recordings(utterances)
        for row in rows.tolist():
            if paths[row] not in passed:
                chosen.append(row)
                passed.add(paths[row])
        return np.array(chosen, np.intp)


def bona_fide_speakers(lists: Sequence[TrialList]) -> Counter[str]:
    """Return the number of bona fide utterances of each speaker, in the order of the lists."""
    counts: Counter[str] = Counter()
    for part in lists:
        column = _column_of(part, SPEAKER)
        counts.update(column[row] for row in np.flatnonzero(part.labels == 1).tolist())
    return counts


def values_in(lists: Sequence[TrialList], column: str) -> list[str]:
    """Return the values of a column, sorted, without those that mean unknown."""
    return sorted({value for part in lists for value in part.columns.get(column, ())} - NO_VALUES)


def _column_of(utterances: TrialList, column: str) -> Sequence[str]:
    """Return the column; '' in all rows if the list does not have it."""
    return utterances.columns.get(column, [""] * len(utterances))


def _has(utterances: TrialList, column: str, values: Collection[str]) -> Flags:
    """Return a mask of the rows with one of the values."""
    wanted = frozenset(values)
    has_value = (value in wanted for value in _column_of(utterances, column))
    return np.fromiter(has_value, np.bool_, len(utterances))


def _known_values(lists: Sequence[TrialList], column: str) -> str:
    values = values_in(lists, column)
    if not values:
        return f" It has no column {column!r}, or the column is empty."
    return f" The values of {column} there: {and_more(values, _SHOWN)}."


def _recordings(utterances: TrialList) -> list[str]:
    """Return the normalised paths of a list's recordings."""
    return [same_recording(os.fspath(utterances.path(row))) for row in range(len(utterances))]


def _part(utterances: TrialList, rows: Indices, short_name: str) -> Part:
    part = replace(utterances.select(rows), name=f"{utterances.name}.{short_name}")
    return Part(part, rows)
