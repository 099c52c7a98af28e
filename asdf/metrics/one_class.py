"""Recall and errors of a set of only genuine speech, or only spoofs, at a threshold.

Invariant: the threshold comes from other data, so decisions are independent given the network, and
the intervals are exact: Clopper and Pearson, "The use of confidence or fiducial limits illustrated
in the case of the binomial", Biometrika 26, 1934.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Flags
from asdf.metrics.decisions import Threshold
from asdf.metrics.intervals import Interval, exact_bounds
from asdf.trials.score_file import Scores


@dataclass(frozen=True)
class Decided:
    """Decisions on trials of one class.

    Attributes:
        label: Label of the class, 1 for bona fide and 0 for spoof.
        errors: Number of trials that were assigned to the other class.
    """

    label: int
    trials: int
    errors: int

    @property
    def error_rate(self) -> Interval:
        """Error rate: false alarms for genuine speech, 1 - SRR for spoofs."""
        low, high = exact_bounds(self.errors, self.trials)
        return Interval(self.errors / self.trials, low, high)

    @property
    def recall(self) -> Interval:
        """Proportion of correct decisions; for spoofs the spoof rejection rate, SRR."""
        wrong = self.error_rate
        return Interval(1 - wrong.value, 1 - wrong.high, 1 - wrong.low)


@dataclass(frozen=True)
class OneClassSet:
    """A set of one class, decided at a threshold.

    Attributes:
        name: Name of the system or set.
        whole: All trials.
        by: Trials of each value of a column, by column.
    """

    name: str
    threshold: Threshold
    whole: Decided
    by: Mapping[str, Mapping[str, Decided]]


def decide_one_class(
    name: str, scores: Scores, threshold: Threshold, columns: Mapping[str, Sequence[str]]
) -> OneClassSet:
    """Decide the trials of a set of one class.

    Args:
        columns: Columns by which the set is broken down, with a value per trial.
    """
    label = int(scores.labels[0])
    is_wrong = (scores.scores >= threshold.value) != (label == 1)

    def decided(chosen: Flags) -> Decided:
        return Decided(label, int(chosen.sum()), int(is_wrong[chosen].sum()))

    by: dict[str, dict[str, Decided]] = {}
    for column, values in columns.items():
        known = np.array(values)
        by[column] = {value: decided(known == value) for value in sorted({*values} - {"", "-"})}
    return OneClassSet(name, threshold, decided(np.ones(len(scores), bool)), by)
