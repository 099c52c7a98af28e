"""Validation of a network on a set with known answers, for the page of a case.

Invariant: scores are mapped by the network's own calibration, as those of the case's recordings
are, so that ratios of both have the same meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import Interval, confidence_intervals
from asdf.metrics.calibration import Calibration
from asdf.metrics.detection import DetCurve
from asdf.metrics.intervals import proportion_bounds
from asdf.metrics.llr_quality import LlrQuality, Tippett, llr_quality
from asdf.trials.score_file import Scores


@dataclass(frozen=True)
class ErrorRate:
    """An error rate with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, errors: int, trials: int) -> ErrorRate:
        """Return the rate of errors among independent trials, see `proportion_bounds`."""
        return cls(errors / trials, *proportion_bounds(errors, trials))

    def describe(self) -> str:
        """Return the rate in words."""
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f} %)"


@dataclass(frozen=True, eq=False)
class Validation:
    """Results on a set with known answers.

    Attributes:
        name: Name of the set.
        trials: Digest of the list of its trials.
        curve: Scores as shown in the case: likelihood ratios for a calibrated network.
        eer: Equal error rate with its interval.
        misses, false_alarms: Errors at the threshold of the network; None without one.
        quality: Quality of the likelihood ratios; None for an uncalibrated network, as for
            `tippett`.
        is_calibration_set: Whether the calibration was learnt from exactly these trials.
        is_checked: Whether the file states that the scores are this network's.
    """

    name: str
    trials: str
    curve: DetCurve
    eer: Interval
    misses: ErrorRate | None
    false_alarms: ErrorRate | None
    quality: LlrQuality | None
    tippett: Tippett | None
    is_calibration_set: bool
    is_checked: bool

    def describe(self) -> str:
        """Return the set and its EER in words."""
        return (
            f"{self.name}: {self.curve.bona_fide.size:,} bona fide and {self.curve.spoof.size:,} "
            f"spoofed recordings; EER {100 * self.eer.value:.1f} % (95 % interval "
            f"{100 * self.eer.low:.1f} to {100 * self.eer.high:.1f} %)"
        )

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        entry: dict[str, Any] = {
            "set": self.name,
            "trials": self.trials,
            "bona_fide": int(self.curve.bona_fide.size),
            "spoof": int(self.curve.spoof.size),
            "eer": {"value": self.eer.value, "low": self.eer.low, "high": self.eer.high},
            "is_calibration_set": self.is_calibration_set,
            "is_checked": self.is_checked,
        }
        for name in ("misses", "false_alarms", "quality"):
            value = getattr(self, name)
            entry[name] = None if value is None else vars(value)
        if self.tippett is not None:
            entry["misleading_bona_fide"] = self.tippett.misleading_bona_fide
            entry["misleading_spoof"] = self.tippett.misleading_spoof
        return entry


def validate(
    name: str,
    scores: Scores,
    calibration: Calibration | None,
    threshold: float | None,
    stated_network: str | None,
    network: str | None,
    replicates: int = 1000,
) -> Validation:
    """Compute the results of a network's own scores on a set.

    Args:
        scores: Scores of the network before calibration, as written by `score --scores`.
        threshold: Threshold of the displayed score; None: no decisions.
        stated_network: Digest of the network in the score file; None if it is not stated.
        network: Digest of the network of the case.

    Raises:
        AsdfError: the scores are another network's, or a class has no trial.
    """
    if stated_network is not None and network is not None and stated_network != network:
        raise AsdfError(
            f"the scores of {name} are of another network (SHA-256 {stated_network[:12]}..., not "
            f"{network[:12]}...): score the set with the network of the case."
        )
    values = scores.scores if calibration is None else calibration.llr(scores.scores)
    mapped = Scores.of(scores, np.asarray(values))
    curve = DetCurve.of_scores(mapped)
    misses = false_alarms = None
    if threshold is not None:
        # As for recordings: the bounds of a calibration limit claims, and not decisions.
        decided = scores
        if calibration is not None:
            decided = Scores.of(scores, calibration.unbounded_llr(scores.scores))
        missed = int(np.sum(decided.bona_fide < threshold))
        misses = ErrorRate.of(missed, decided.bona_fide.size)
        passed = int(np.sum(decided.spoof >= threshold))
        false_alarms = ErrorRate.of(passed, decided.spoof.size)
    digest = scores.digest()
    return Validation(
        name,
        digest,
        curve,
        confidence_intervals(mapped, replicates=replicates).eer,
        misses,
        false_alarms,
        # Both are of likelihood ratios, which scores without a calibration are not.
        None if calibration is None else llr_quality(curve),
        None if calibration is None else Tippett.of(curve),
        calibration is not None and calibration.trials == digest,
        stated_network is not None and stated_network == network,
    )
