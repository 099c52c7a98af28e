"""Decisions at a threshold: accuracy, balanced accuracy, precision, recall, F1 and macro-F1.

Invariant: a trial with a score of at least the threshold is decided bona fide, all others spoof;
the threshold is an argument, and never chosen here on the evaluated trials. Values are fractions,
equal to those of scikit-learn's `accuracy_score`, `balanced_accuracy_score`, `precision_score`,
`recall_score` and `f1_score` with `zero_division=0`: a class that is never decided has precision 0.

Decisions on a set of one class are independent given the network, so their intervals are exact:
Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial", Biometrika 26, 1934.

Thresholds for decisions, chosen on the scores of another set than the evaluated one.

Invariant: a threshold lies halfway between the last rejected and the first accepted score, so it is
not a score of its set, and rounding of a score changes no decision. Of several equally good
thresholds, the lowest is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asdf.arrays import Flags, Floats
from asdf.metrics.bootstrap import block_draws, speaker_block_draws, speakers_of_fewer_class
from asdf.metrics.calibration import Calibration, eer_threshold
from asdf.metrics.detection import ASVSPOOF5, Blocks, DetCurve, DetectionCost, Weights
from asdf.metrics.intervals import Interval, exact_bounds, rate_interval
from asdf.metrics.score_checks import Finding
from asdf.trials.score_file import Scores

# Indices of the blocks of trials on either side of the threshold.
_REJECTED = 0
_ACCEPTED = 1
# Guessing has a balanced accuracy of 0.5, and chance may lead slightly below it.
_TURNED = 0.4


@dataclass(frozen=True)
class Confusion:
    """Numbers of accepted (decided bona fide) and rejected trials of each class.

    Each is a number, or an array of one number per replicate of a bootstrap.
    """

    accepted_bona_fide: Any
    rejected_bona_fide: Any
    accepted_spoof: Any
    rejected_spoof: Any

    @classmethod
    def at(cls, bona_fide: Floats, spoof: Floats, threshold: float) -> Confusion:
        """Count the decisions about the scores of both classes."""
        accepted_bona_fide = int((bona_fide >= threshold).sum())
        accepted_spoof = int((spoof >= threshold).sum())
        return cls(
            accepted_bona_fide=accepted_bona_fide,
            rejected_bona_fide=bona_fide.size - accepted_bona_fide,
            accepted_spoof=accepted_spoof,
            rejected_spoof=spoof.size - accepted_spoof,
        )

    def rates(self) -> dict[str, Any]:
        """Return the `DECISION_METRICS` by name."""
        right = self.accepted_bona_fide + self.rejected_spoof
        # For either class, its false and its missed decisions are all the errors.
        wrong = self.rejected_bona_fide + self.accepted_spoof
        of_bona_fide = self.accepted_bona_fide + self.rejected_bona_fide
        recall_bona_fide = self.accepted_bona_fide / of_bona_fide
        recall_spoof = self.rejected_spoof / (self.rejected_spoof + self.accepted_spoof)
        f1_bona_fide = 2 * self.accepted_bona_fide / (2 * self.accepted_bona_fide + wrong)
        f1_spoof = 2 * self.rejected_spoof / (2 * self.rejected_spoof + wrong)
        # If a class is never decided, its precision is 0 / 1, like scikit-learn's zero_division=0.
        accepted = np.maximum(self.accepted_bona_fide + self.accepted_spoof, 1)
        rejected = np.maximum(self.rejected_spoof + self.rejected_bona_fide, 1)
        return {
            "accuracy": right / (right + wrong),
            "balanced_accuracy": (recall_bona_fide + recall_spoof) / 2,
            "macro_f1": (f1_bona_fide + f1_spoof) / 2,
            "f1_bona_fide": f1_bona_fide,
            "f1_spoof": f1_spoof,
            "precision_bona_fide": self.accepted_bona_fide / accepted,
            "recall_bona_fide": recall_bona_fide,
            "precision_spoof": self.rejected_spoof / rejected,
            "recall_spoof": recall_spoof,
        }

    def values(self) -> dict[str, float]:
        """Return the `DECISION_METRICS` of single numbers by name."""
        return {name: float(value) for name, value in self.rates().items()}


DECISION_METRICS = tuple(Confusion(1, 1, 1, 1).rates())
"""Names of the metrics, in the order of every output."""


@dataclass(frozen=True)
class Threshold:
    """A threshold with its origin in words; scores of at least `value` are bona fide."""

    value: float
    source: str


@dataclass(frozen=True)
class Decisions:
    """The decisions about one set at a threshold.

    Attributes:
        intervals, speaker_intervals: Intervals over trials and over speakers, by metric; empty if
            they were not requested or no speakers are known.
    """

    threshold: Threshold
    confusion: Confusion
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    speaker_intervals: Mapping[str, Interval] = field(default_factory=dict)

    def value(self, name: str) -> float:
        """Return the metric called `name`, one of `DECISION_METRICS`."""
        return float(self.confusion.rates()[name])


def decide(
    scores: Scores,
    threshold: Threshold,
    *,
    speakers: Sequence[str] = (),
    replicates: int = 0,
    seed: int = 0,
) -> Decisions:
    """Return the decisions about scored trials, with intervals if `replicates` are requested.

    The threshold is the same in all replicates, since it was set before, on other trials.

    Args:
        scores: Scores of trials of both classes.
        speakers: Speaker of each trial; empty for no intervals over speakers.
    """
    confusion = Confusion.at(scores.bona_fide, scores.spoof, threshold.value)
    if not replicates:
        return Decisions(threshold, confusion)
    # Only the decision on each trial matters.
    blocks = Blocks(
        of_bona_fide=(scores.bona_fide >= threshold.value).astype(np.intp),
        of_spoof=(scores.spoof >= threshold.value).astype(np.intp),
        count=2,
    )
    draws = block_draws(blocks, replicates, np.random.default_rng(seed))
    over_trials = _intervals(confusion, draws)
    over_speakers: dict[str, Interval] = {}
    if speakers:
        rng = np.random.default_rng(seed)
        speaker_draws = speaker_block_draws(blocks, scores.labels, speakers, replicates, rng)
        groups = speakers_of_fewer_class(scores.labels, speakers)
        over_speakers = _intervals(confusion, speaker_draws, groups)
    return Decisions(threshold, confusion, over_trials, over_speakers)


def find_turned(decisions: Decisions) -> list[Finding]:
    """Warn of decisions that are wrong more often than right."""
    accuracy = decisions.value("balanced_accuracy")
    if accuracy >= _TURNED:
        return []
    message = (
        f"the balanced accuracy is {100 * accuracy:.2f} %, and {100 - 100 * accuracy:.2f} % with "
        "all decisions inverted: are the two classes swapped in one of the files? 1 means bona "
        "fide."
    )
    return [Finding("warning", message)]


def _intervals(
    confusion: Confusion, draws: Iterable[Weights], groups: int | None = None
) -> dict[str, Interval]:
    parts = list(draws)
    bona_fide = np.concatenate([part.bona_fide for part in parts])
    spoof = np.concatenate([part.spoof for part in parts])
    drawn = Confusion(
        accepted_bona_fide=bona_fide[:, _ACCEPTED],
        rejected_bona_fide=bona_fide[:, _REJECTED],
        accepted_spoof=spoof[:, _ACCEPTED],
        rejected_spoof=spoof[:, _REJECTED],
    )
    of_bona_fide = confusion.accepted_bona_fide + confusion.rejected_bona_fide
    of_spoof = confusion.accepted_spoof + confusion.rejected_spoof
    # How many trials without error bound a metric: the smaller class bounds the others.
    sizes = {
        "accuracy": of_bona_fide + of_spoof,
        "recall_bona_fide": of_bona_fide,
        "recall_spoof": of_spoof,
    }
    intervals = {}
    measured = confusion.values()
    for name, values in drawn.rates().items():
        trials = int(sizes.get(name, min(of_bona_fide, of_spoof)))
        intervals[name] = rate_interval(measured[name], values, trials=trials, groups=groups)
    return intervals


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


# Relative, slightly more than the rounding of a division.
_ROUNDING = 2.0**-50

# Metrics that the rules maximise.
_METRICS = {
    "best-f1": "macro_f1",
    "best-accuracy": "accuracy",
    "best-balanced-accuracy": "balanced_accuracy",
}
THRESHOLD_RULES = ("eer", "min-dcf", *_METRICS)
"""Criteria for choosing a threshold; best-f1 maximises the macro-F1."""


def choose_threshold(curve: DetCurve, rule: str, cost: DetectionCost = ASVSPOOF5) -> float:
    """Return the threshold of one of the `THRESHOLD_RULES` on the trials of a curve.

    Args:
        cost: Costs of 'min-dcf'.
    """
    if rule == "eer":
        return eer_threshold(curve.bona_fide, curve.spoof)
    points = _possible_points(curve)
    if rule == "min-dcf":
        costs = cost.miss_weight * curve.frr + cost.false_alarm_weight * curve.far
    else:
        costs = -confusions(curve).rates()[_METRICS[rule]]
    return _threshold_above(curve, int(points[np.argmin(costs[points])]))


def best_value(curve: DetCurve, metric: str) -> float:
    """Return the highest value of a decision metric over all thresholds."""
    values = confusions(curve).rates()[metric]
    return float(values[_possible_points(curve)].max())


def confusions(curve: DetCurve) -> Confusion:
    """Return the decisions at every point of a curve, arrays of (trials + 1,)."""
    missed = np.concatenate([[0], np.cumsum(curve.is_bona_fide)])
    rejected = np.arange(missed.size) - missed
    return Confusion(
        accepted_bona_fide=curve.bona_fide.size - missed,
        rejected_bona_fide=missed,
        accepted_spoof=curve.spoof.size - rejected,
        rejected_spoof=rejected,
    )


def score_threshold(calibration: Calibration) -> float:
    """Return the lowest score whose LLR reaches the threshold of a calibration.

    Its decisions equal those of the calibrated network, to the last bit of the scores.
    """
    start = calibration.map.inverse(calibration.threshold)
    step = max(abs(start), 1.0) * _ROUNDING
    # The division rounds, so the border is found by bisecting the map itself, which is increasing.
    while calibration.unbounded_llr(start - step) >= calibration.threshold:
        step *= 2
    below = start - step
    step = max(abs(start), 1.0) * _ROUNDING
    while calibration.unbounded_llr(start + step) < calibration.threshold:
        step *= 2
    reached = start + step
    while below < (middle := below / 2 + reached / 2) < reached:
        if calibration.unbounded_llr(middle) >= calibration.threshold:
            reached = middle
        else:
            below = middle
    return float(reached)


def _possible_points(curve: DetCurve) -> np.ndarray:
    """Return the points of the curve that a threshold can reach: none between equal scores."""
    # The first point accepts all trials; its threshold lies below all scores.
    differs = curve.thresholds[1:] != curve.thresholds[:-1]
    return np.flatnonzero(np.append(differs, True))


def _threshold_above(curve: DetCurve, point: int) -> float:
    """Return a threshold that rejects exactly the trials up to a point."""
    scores = curve.thresholds
    if point == 0:
        return float(scores[1])
    rejected = scores[point]
    if point == scores.size - 1:
        return float(np.nextafter(rejected, np.inf))
    accepted = scores[point + 1]
    # Halved first, since the sum of two large scores may be infinite.
    middle = rejected / 2 + accepted / 2
    return float(middle if middle > rejected else accepted)
