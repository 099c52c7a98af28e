"""Recall and errors of a set of only genuine speech, or only spoofs, at a threshold.

Invariant: the threshold comes from other data, so decisions are independent given the network, and
the intervals are exact: Clopper and Pearson, "The use of confidence or fiducial limits illustrated
in the case of the binomial", Biometrika 26, 1934, for proportions of trials; Garwood, "Fiducial
limits for the Poisson distribution", Biometrika 28, 1936, for false alarms per hour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats
from asdf.metrics.decisions import Threshold
from asdf.metrics.intervals import Interval, exact_bounds
from asdf.trials.score_file import Scores

LEVEL = 0.95
# Only a limit: the precision is reached after about 50.
_HALVINGS = 200
_PRECISION = 1e-12


@dataclass(frozen=True)
class Extent:
    """Errors among some trials of one class.

    Attributes:
        name: Common value of the column in these trials; '' for all trials.
        label: Label of the class, 1 for bona fide and 0 for spoof.
        errors: Number of trials that were assigned to the other class.
        hours: Hours of speech in these trials; None if their durations are unknown.
    """

    name: str
    label: int
    trials: int
    errors: int
    hours: float | None = None

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

    @property
    def hours_until_alarm(self) -> Interval | None:
        """Hours of genuine speech per false alarm; infinite without one; None if unknown."""
        if self.label == 0 or not self.hours:
            return None
        low, high = poisson_bounds(self.errors)
        value = self.hours / self.errors if self.errors else math.inf
        longest = self.hours / low if low else math.inf
        return Interval(value, self.hours / high, longest)


@dataclass(frozen=True)
class OneClassSet:
    """A set of one class, decided at a threshold.

    Attributes:
        name: Name of the system or set.
        whole: All trials.
        parts: Trials grouped by the values of columns.
    """

    name: str
    threshold: Threshold
    whole: Extent
    parts: Sequence[tuple[str, Extent]] = ()


def decide_one_class(
    name: str,
    scores: Scores,
    threshold: Threshold,
    columns: dict[str, Sequence[str]],
    seconds: Floats | None = None,
) -> OneClassSet:
    """Decide the trials of a set of one class.

    Args:
        columns: Columns by which the set is broken down, with a value per trial.
        seconds: Length of each recording in seconds, (trials,); None if unknown.
    """
    label = int(scores.labels[0])
    is_accepted = scores.scores >= threshold.value
    is_wrong = is_accepted != (label == 1)

    def extent(
        part: str,
        chosen: np.ndarray,
    ) -> Extent:
        hours = None
        if seconds is not None:
            hours = float(seconds[chosen].sum()) / 3600
        return Extent(part, label, int(chosen.sum()), int(is_wrong[chosen].sum()), hours)

    parts = []
    for column, values in columns.items():
        known = np.array(values)
        for value in sorted(set(values) - {"", "-"}):
            parts.append((column, extent(value, known == value)))
    everything = np.ones(len(scores), bool)
    return OneClassSet(name, threshold, extent("", everything), tuple(parts))


def poisson_bounds(
    events: int,
    level: float = LEVEL,
) -> tuple[float, float]:
    """Return Garwood's two-sided interval of the mean of a Poisson variable."""
    tail = (1 - level) / 2
    # The bounds are the means at which this many events or more, or this many or fewer, have the
    # probability of one tail.
    low = _poisson_mean(events - 1, 1 - tail) if events else 0.0
    return low, _poisson_mean(events, tail)


def _poisson_mean(
    events: int,
    chance: float,
) -> float:
    """Return the mean at which at most `events` events have this probability."""
    counts = np.arange(events + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])  # log(n!)
    low = 0.0
    # More than ten standard deviations above the events, where the tail is far below any in use.
    high = events + 10 * math.sqrt(events + 1) + 20
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if high - low < _PRECISION * high:
            break
        # By logarithms, since powers and factorials of a few hundred events overflow.
        at_most = np.exp(counts * math.log(middle) - middle - factorials).sum()
        # The probability of so few events falls as the mean rises.
        if at_most > chance:
            low = middle
        else:
            high = middle
    return high
