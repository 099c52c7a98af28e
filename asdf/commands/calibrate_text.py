"""Descriptions of a calibration: its quality, its support, and reasons for doubt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.outputs import input_name

if TYPE_CHECKING:
    from asdf.commands.learn_calibration import CalibrationSet, Learnt
    from asdf.metrics.calibration import Calibration

# Below this number, a single trial moves the rates of a class by several points.
_FEW_TRIALS = 30


def describe_learnt(path: Path, learnt_from: CalibrationSet, learnt: Learnt) -> str:
    """Return the lines about a calibration learnt from the score file `path`."""
    calibration = learnt.calibration
    lines = [
        _describe_scores(path, learnt_from),
        *_describe_map(learnt),
        _describe_costs(learnt_from, calibration),
        _describe_support(calibration),
        calibration.describe(),
        _describe_decisions(learnt_from, calibration),
        *_describe_doubts(learnt_from, calibration),
    ]
    return "\n".join(lines)


def _describe_scores(path: Path, learnt_from: CalibrationSet) -> str:
    from asdf.metrics.detection import eer
    from asdf.trials.how_scored import in_precision
    from asdf.trials.scored_files import how_scored

    scores = learnt_from.scores
    error_rate, _ = eer(scores.bona_fide, scores.spoof)
    precision = in_precision(how_scored(path).precision)
    where = f" with {learnt_from.where}" if learnt_from.where else ""
    return (
        f"{input_name(path)}: {scores.bona_fide.size} bona fide, {scores.spoof.size} spoof{where}, "
        f"EER {100 * error_rate:.2f} %{precision}"
    )


def _describe_map(learnt: Learnt) -> list[str]:
    """Return the map, and the Cllr of each method if they were cross-validated."""
    calibration = learnt.calibration
    scores = calibration.map_scores
    llrs = calibration.map_llrs
    if scores is None or llrs is None:
        lines = [f"LLR = {calibration.scale:.6g} * score {calibration.offset:+.6g}"]
    else:
        lines = [
            f"LLR by {len(scores)} knots, from {llrs[0]:.4g} at a score of {scores[0]:.4g} to "
            f"{llrs[-1]:.4g} at {scores[-1]:.4g}"
        ]
    parts = []
    for method, value in learnt.cllrs.items():
        shown = "cannot be fitted" if value is None else f"{value:.4f}"
        parts.append(f"{method} {shown}")
    if parts:
        lines.append(
            f"method: {calibration.describe_method()}; Cllr in bits, cross-validated by "
            f"{calibration.folds_of}: {', '.join(parts)}"
        )
    return lines


def _describe_costs(learnt_from: CalibrationSet, calibration: Calibration) -> str:
    """Return the Cllr before calibration, on held-out trials, and on the fitted trials."""
    from asdf.metrics.costs import cllr, min_cllr

    scores = learnt_from.scores
    before = cllr(scores.bona_fide, scores.spoof)
    bona_fide_llrs = calibration.unbounded_llr(scores.bona_fide)
    spoof_llrs = calibration.unbounded_llr(scores.spoof)
    fitted = cllr(bona_fide_llrs, spoof_llrs)
    folds_of = calibration.folds_of
    if calibration.cross_validated_cllr is None:
        held_out = f"not cross-validated, because a class has too few {folds_of}"
    else:
        note = "" if folds_of == "speakers" else ", because speakers are unknown"
        after = f"{calibration.cross_validated_cllr:.4f} after"
        held_out = f"{after}, cross-validated by {folds_of}{note}"
    return (
        f"Cllr {before:.4f} bits before, {held_out}; "
        f"{fitted:.4f} on the trials that the map was fitted to, where the minimum over increasing "
        f"maps is {min_cllr(scores.bona_fide, scores.spoof):.4f}"
    )


def _describe_support(calibration: Calibration) -> str:
    """Return the bounds and the source of the intervals, in words."""
    from asdf.metrics.verbal_scale import log10_llr

    lowest = calibration.lowest_llr or 0.0
    highest = calibration.highest_llr or 0.0
    bounds = (
        "LLRs are limited to the range that these recordings support, "
        f"{lowest:.2f} to {highest:.2f} (log10 {log10_llr(lowest):.2f} to {log10_llr(highest):.2f})"
    )
    if calibration.replicates is None:
        return f"{bounds}; they have no interval, because most bootstrap draws lack a class"
    count = len(calibration.replicates)
    return f"{bounds}; their intervals are from {count} draws of {calibration.folds_of}"


def _describe_decisions(learnt_from: CalibrationSet, calibration: Calibration) -> str:
    scores = learnt_from.scores
    threshold = calibration.threshold
    # By unbounded LLRs, as verdicts are decided: bounds must not change a decision.
    missed = (calibration.unbounded_llr(scores.bona_fide) < threshold).mean()
    accepted = (calibration.unbounded_llr(scores.spoof) >= threshold).mean()
    return (
        f"on these scores {100 * missed:.2f} % of bona fide trials are rejected and "
        f"{100 * accepted:.2f} % of spoof trials accepted"
    )


def _describe_doubts(learnt_from: CalibrationSet, calibration: Calibration) -> list[str]:
    """Return a sentence for each reason to doubt the calibration."""
    scores = learnt_from.scores
    doubts = []
    # Perfectly separated classes have no finite best map; the calibration is then bounded.
    if scores.bona_fide.min() >= scores.spoof.max():
        doubts.append(
            "The scores separate the two classes without error, so they do not show how rare "
            "errors are: the LLRs assume an error rate of one trial in all. More trials would give "
            "a better estimate."
        )
    if not calibration.supports_threshold:
        doubts.append(
            f"warning: the threshold, an LLR of {calibration.threshold:.4g}, is outside the range "
            "that these recordings support, so decisions there are an extrapolation. Use more "
            "trials."
        )
    fewest = min(scores.bona_fide.size, scores.spoof.size)
    if learnt_from.where and fewest < _FEW_TRIALS:
        doubts.append(
            f"warning: only {fewest} trials of a class match {learnt_from.where}, so bounds are "
            "narrow and intervals wide. Give more values, or use a larger set."
        )
    if calibration.chose_network:
        doubts.append(
            "warning: this set also chose the network among those of its training, so its error "
            "rates and LLRs are optimistic. Calibrate on a set that chose nothing."
        )
    return doubts
