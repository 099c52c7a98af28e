"""Trials of a set that match a case, by their columns: `calibrate --where codec=amr,language=fr`.

Invariant: a trial is selected only if every given column has one of the given values; an unknown
name is refused with a list of the known ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from asdf.errors import AsdfError, UsageError
from asdf.text import and_more

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores
    from asdf.trials.trial_list import TrialList

_VALUES_SHOWN = 12


def parse_where(text: str) -> dict[str, tuple[str, ...]]:
    """Return the values of each column in 'codec=amr|gsm,language=fr'.

    Raises:
        UsageError: the text has another form, or contains a column twice.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        column, sign, values = part.partition("=")
        column = column.strip()
        named = tuple(value.strip() for value in values.split("|"))
        if not sign or not column or not all(named):
            raise UsageError(
                f"--where {text}: expected COLUMN=VALUE, with commas between columns and | between "
                "values of a column, as in codec=amr|gsm,language=fr."
            )
        if column in wanted:
            raise UsageError(
                f"--where {text}: {column} is given twice. Write its values once, with | between "
                "them."
            )
        wanted[column] = named
    return wanted


def describe_where(wanted: Mapping[str, Sequence[str]]) -> str:
    """Return a selection in words, 'codec=amr|gsm, language=fr'."""
    return ", ".join(f"{column}={'|'.join(values)}" for column, values in wanted.items())


def select_where(
    scores: Scores, trials: TrialList | None, wanted: Mapping[str, Sequence[str]]
) -> Scores:
    """Return the scored trials whose columns have the wanted values.

    Args:
        trials: Trials with their columns; None: only the columns of the scores are known.

    Raises:
        AsdfError: there is no such column or value, or no such trial of a class.
    """
    matches = np.ones(len(scores), bool)
    for column, values in wanted.items():
        cells = _cells_of(scores, trials, column)
        unknown = [value for value in values if value not in cells]
        if unknown:
            known = f"--where {column}={unknown[0]}: no trial matches. {_count_values(cells)}"
            raise AsdfError(known)
        matches &= np.isin(cells, values)
    selected = scores.select(np.flatnonzero(matches))
    for name, label in (("bona fide", 1), ("spoofed", 0)):
        if not (selected.labels == label).any():
            raise AsdfError(_explain_lack(scores, trials, wanted, len(selected), name))
    return selected


def _cells_of(scores: Scores, trials: TrialList | None, column: str) -> list[str]:
    """Return the value of each scored trial in a column, '' if unknown."""
    if trials is None:
        trials = scores
    if column not in trials.columns:
        names = sorted(trials.columns)
        there = f"Known columns: {', '.join(names)}." if names else "They have no columns."
        raise AsdfError(
            f"--where {column}=...: the trials have no such column. {there} Columns come from the "
            "label file of --protocol, or from the run that contains the scores."
        )
    cells = trials.columns[column]
    # Scores may have another order than the label file, or fewer trials.
    indices = map(trials.index_of, scores.ids)
    return ["" if index is None else cells[index] for index in indices]


def _count_values(cells: Sequence[str]) -> str:
    counts = Counter(cells)
    named = [f"{value or '(empty)'} ({count:,})" for value, count in counts.most_common()]
    return f"Values: {and_more(named, _VALUES_SHOWN)}."


def _explain_lack(
    scores: Scores,
    trials: TrialList | None,
    wanted: Mapping[str, Sequence[str]],
    selected: int,
    name: str,
) -> str:
    """Return that a class has no selected trial, with the remainder under each condition alone."""
    label = int(name == "bona fide")
    lines = []
    for column in wanted:
        cells = np.array(_cells_of(scores, trials, column))
        of_class = cells[scores.labels == label].tolist()
        lines.append(f"{column} of the {name} trials: {_count_values(of_class)}")
    where = describe_where(wanted)
    return (
        f"--where {where}: {selected:,} trials match, but none is {name}, and a calibration needs "
        f"both classes. {' '.join(lines)}"
    )
