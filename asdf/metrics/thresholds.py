"""Thresholds for decisions, chosen on the scores of another set than the evaluated one.

Invariant: a threshold lies halfway between the last rejected and the first accepted score, so it is
not a score of its set, and rounding of a score changes no decision. Of several equally good
thresholds, the lowest is taken.
"""

from __future__ import annotations

import numpy as np

from asdf.metrics.calibration import Calibration, eer_threshold
from asdf.metrics.costs import ASVSPOOF5, DetectionCost
from asdf.metrics.decisions import Confusion
from asdf.metrics.detection import DetCurve

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
