"""Folds of a launch: runs that each leave out other values of a column, and other speakers.

They leave each attack out once, with some speakers: each value of the column, and each genuine
speaker, by exactly one fold. They follow from the lists alone, so every machine makes the same
ones. A fold is a few settings that turn any run of a recipe into one: what is left out, and that
all of it is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.errors import UsageError
from asdf.recipe.declared_corpora import Corpus, set_parts
from asdf.recipe.left_out import NO_VALUES, SPEAKER, bona_fide_speakers, values_in
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

FOLD_SETTINGS = (
    "recipe.leave_out",
    "recipe.leave_out_speakers",
    "recipe.evaluate_left_out",
    "recipe.evaluation_sets",
)
"""Settings of a fold; `recipe.validation_sets` is set too if it was the evaluation sets."""

_FOLDS = re.compile(r"(\w[\w.-]*):([1-9]\d{0,5})")
_SAFE = re.compile(r"[^A-Za-z0-9.+_]+")
_MAX_NAME = 40


@dataclass(frozen=True)
class Fold:
    """Fold `number` of `count`: the values and speakers that it leaves out."""

    column: str
    values: tuple[str, ...]
    speakers: tuple[str, ...]
    number: int
    count: int

    @property
    def name(self) -> str:
        """'attack_A01_A02-fold1of4', for use in the name of a folder."""
        # The number distinguishes folds whose values are cut or replaced, and other divisions.
        values = _SAFE.sub("_", "_".join((self.column, *self.values)))[:_MAX_NAME]
        return f"{values}-fold{self.number}of{self.count}"


def divide_into_folds(training: Sequence[TrialList], folds: str) -> list[Fold]:
    """Return the folds of training sets.

    The values of spoofs are sorted and assigned in turn. The speakers of bona fide utterances are
    divided so that folds have similar numbers of utterances: speakers are assigned from the largest
    to the smallest, each to the fold with the fewest utterances; ties are broken by name and
    number.

    Args:
        folds: Column whose values are left out, and how many at a time: 'attack:2'.

    Raises:
        UsageError: `folds` has another form; or there are fewer than two folds, or fewer speakers
            than folds.
    """
    match = _FOLDS.fullmatch(folds.strip())
    if match is None:
        raise UsageError(
            f"--folds {folds}: write a column and how many of its values are left out at a time, "
            "such as attack:2."
        )
    column, size = match[1], int(match[2])
    spoofs = [part.select(np.flatnonzero(part.labels == 0)) for part in training]
    values = values_in(spoofs, column)
    groups = [tuple(values[start : start + size]) for start in range(0, len(values), size)]
    sets = ", ".join(part.name for part in training)
    if len(groups) < 2:
        raise UsageError(
            f"--folds {column}:{size}: at least two folds are needed, but the spoofs of {sets} "
            f"have {len(values)} values of {column!r}: {', '.join(values) or 'none'}."
        )
    speakers = bona_fide_speakers(training)
    for unknown in NO_VALUES:
        speakers.pop(unknown, None)
    if len(speakers) < len(groups):
        raise UsageError(
            f"--folds {column}:{size}: {len(groups)} folds need as many genuine speakers, but "
            f"{sets} have {len(speakers)} in the column {SPEAKER!r}. Leave more values out at a "
            "time, or give the list its speakers: Corpus(protocol=...)."
        )
    shares: list[list[str]] = [[] for _ in groups]
    sizes = [0] * len(groups)
    for speaker in sorted(speakers, key=lambda name: (-speakers[name], name)):
        lowest = sizes.index(min(sizes))
        shares[lowest].append(speaker)
        sizes[lowest] += speakers[speaker]
    return [
        Fold(column, group, tuple(sorted(share)), number, len(groups))
        for number, (group, share) in enumerate(zip(groups, shares, strict=True), 1)
    ]


def fold_overrides(fold: Fold, settings: Sections, corpora: Mapping[str, Corpus]) -> list[str]:
    """Return the overrides that turn a run with these settings into the fold.

    The left-out part of all training and validation sets is evaluated. Networks are chosen
    according to the settings, on the rest of the validation sets.
    """
    validated = settings.recipe.validated_sets
    parts: dict[str, None] = {}
    for name in (*settings.recipe.training_sets, *validated):
        parts.update(dict.fromkeys(set_parts(name, corpora)))
    values = [(fold.column, *fold.values), fold.speakers, True, ("+".join(parts),)]
    overrides = [f"{name}={value!r}" for name, value in zip(FOLD_SETTINGS, values, strict=True)]
    # Unset, they would be the evaluation sets, which the fold replaces.
    if settings.recipe.validation_sets is None:
        overrides.append(f"recipe.validation_sets={validated!r}")
    return overrides
