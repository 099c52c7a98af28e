"""The results of a system by attack, codec, ...: which spoofs are held against which bona fide trials.

Invariant: a condition is never of one class alone. Where a column tells spoofs apart only, as 'attack' does, the spoofs
of each value are held against all bona fide trials. Where bona fide trials have its values as well, as those of a
codec, spoofs are held against the bona fide trials of the same value, and a value that only one class has is left out
and named in a finding. The package of ASVspoof 2021 does the same for what it calls factors of 'spoof' and of 'both'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from asdf.metrics.bootstrap import Interval
from asdf.metrics.checks import Finding
from asdf.metrics.detection import Floats
from asdf.metrics.results import Result, by_condition
from asdf.trials.score_file import Scores

_SHOWN = 8
FEW = 20
"""An EER over fewer trials of a class than this moves by more than 5 % with one of them."""


@dataclass(frozen=True)
class Condition:
    """The result of one value of one column.

    Attributes:
        bona_fide: against which bona fide trials: all, or those of the same value.
        interval: of the EER, over trials; None where it was not asked for.
    """

    column: str
    value: str
    result: Result
    bona_fide: Literal["all", "same"] = "all"
    interval: Interval | None = None

    @property
    def few(self) -> bool:
        """Whether a class has too few trials for its EER to say anything of the condition."""
        return min(self.result.bona_fide, self.result.spoof) < FEW


@dataclass(frozen=True)
class Average:
    """The means over the conditions of a column, each counting the same; `eer` is a fraction."""

    eer: float
    min_dcf: float
    act_dcf: float
    cllr: float


def average(conditions: Sequence[Condition]) -> Average:
    """The means over at least one condition."""
    results = [condition.result for condition in conditions]
    return Average(
        *(float(np.mean([getattr(r, field.name) for r in results])) for field in fields(Average))
    )


def conditions_of(
    scores: Scores, column: str, values: Sequence[str]
) -> tuple[list[Condition], list[Finding]]:
    """The conditions of one column, in alphabetical order, and a finding about values that are left out.

    `values` has the value of each trial, '' where it is not known. With fewer than two values, the `-` of bona fide
    trials counting as one, there are no conditions.
    """
    labelled = list(zip(values, scores.labels.tolist(), strict=False))
    of_bona_fide = {value for value, label in labelled if label == 1 and value}
    of_spoof = {value for value, label in labelled if label == 0 and value}
    if len(of_bona_fide | of_spoof) < 2:
        return [], []
    both = of_bona_fide & of_spoof
    if column == "attack" or not both:
        results = by_condition(scores, values)
        return [Condition(column, value, result) for value, result in results.items() if value], []
    results = by_condition(scores, values, bona_fide="same")
    conditions = [
        Condition(column, value, result, "same") for value, result in results.items() if value
    ]
    alone = sorted(of_bona_fide ^ of_spoof)
    if not alone:
        return conditions, []
    shown = alone[:_SHOWN]
    if len(alone) > _SHOWN:
        shown.append("...")
    message = (
        f"by {column}: left out because bona fide or spoof trials are missing: {', '.join(shown)} "
        f"({len(alone)} values)."
    )
    return conditions, [Finding("warning", message)]


def trials_of(condition: Condition, scores: Scores, values: Sequence[str]) -> tuple[Floats, Floats]:
    """The scores of the (bona fide, spoof) trials that a condition is about; `values` as for `conditions_of`."""
    column = np.asarray(values)
    of_bona_fide, of_spoof = column[scores.labels == 1], column[scores.labels == 0]
    same = condition.bona_fide == "same"
    bona_fide = scores.bona_fide[of_bona_fide == condition.value] if same else scores.bona_fide
    return bona_fide, scores.spoof[of_spoof == condition.value]
