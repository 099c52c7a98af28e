"""Scores as log-likelihood ratios: an affine map and a threshold, fitted on a score file.

Invariant: the map rises, so it changes no order and no EER; fitted with prior 0.5 it has the lowest
Cllr of all affine maps on the scores that it was fitted on, the scores as they are among them.

Source: Brümmer, "Measuring, refining and calibrating speaker and language information extracted
from speech", PhD thesis, Stellenbosch University, 2010, and his toolkit FoCal: prior-weighted
logistic regression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.costs import DetectionCost
from asdf.metrics.detection import as_scores, eer
from asdf.metrics.logistic import fit_weights

_COSTS = ("spoof_prior", "miss", "false_alarm")
# What every entry has, and what says where it is from: texts, and numbers.
_MAP = ("scale", "offset", "threshold", *_COSTS)
_TEXTS = ("set", "trials", "date", "folds_of")
_NUMBERS = ("bona_fide", "spoof", "speakers", "eer", "cross_validated_cllr")


@dataclass(frozen=True)
class Calibration:
    """LLR = scale * score + offset, in natural logarithms; bona fide from `threshold` (an LLR) on.

    Attributes:
        spoof_prior, miss, false_alarm: the costs whose Bayes threshold it is; None where it is that
            of the EER.
        set: name of the set that it was learnt from; this and what follows is None where it is not
            known, as of the first versions.
        trials: digest of the list of its trials.
        bona_fide, spoof: numbers of its trials.
        speakers: number of its speakers; None also where they are not known.
        date: day on which it was learnt, 2026-11-23.
        eer: equal error rate of the scores that it was learnt from, a fraction.
        cross_validated_cllr: Cllr in bits of trials by maps that were learnt from others.
        folds_of: 'speakers' or 'trials', which are held out together for it.
        windows: Threshold for windows of long recordings, as plain values
            (`asdf.scoring.window_threshold`); None: not learnt.
    """

    scale: float
    offset: float
    threshold: float
    spoof_prior: float | None = None
    miss: float | None = None
    false_alarm: float | None = None
    # They say where it is from, and change no likelihood ratio: equal maps are equal.
    set: str | None = field(default=None, compare=False)
    trials: str | None = field(default=None, compare=False)
    bona_fide: int | None = field(default=None, compare=False)
    spoof: int | None = field(default=None, compare=False)
    speakers: int | None = field(default=None, compare=False)
    date: str | None = field(default=None, compare=False)
    eer: float | None = field(default=None, compare=False)
    cross_validated_cllr: float | None = field(default=None, compare=False)
    folds_of: str | None = field(default=None, compare=False)
    windows: dict[str, Any] | None = field(default=None, compare=False)

    def llr(self, scores: npt.ArrayLike) -> Floats:
        """Return the log-likelihood ratios of a network's scores, of any shape."""
        return self.scale * np.asarray(scores, np.float64) + self.offset

    def describe(self) -> str:
        """Return the decision in words."""
        decision = f"bona fide from an LLR of {self.threshold:.4g} on"
        if self.spoof_prior is None:
            return f"{decision}, where both error rates were equal"
        return (
            f"{decision}, the Bayes threshold where {self.spoof_prior:.4g} of the recordings are "
            f"spoofs, a missed bona fide costs {self.miss:g} and an accepted spoof "
            f"{self.false_alarm:g}"
        )

    def describe_origin(self) -> str:
        """Return in words what it was learnt from, '' where that is not known."""
        if self.bona_fide is None or self.spoof is None:
            return ""
        parts = [f"{self.bona_fide:,} bona fide and {self.spoof:,} spoofed recordings"]
        if self.set:
            parts[0] = f"{self.set}: {parts[0]}"
        if self.speakers is not None:
            parts.append(f"{self.speakers:,} speakers")
        if self.eer is not None:
            parts.append(f"EER {100 * self.eer:.2f} %")
        if self.cross_validated_cllr is not None:
            parts.append(
                f"Cllr {self.cross_validated_cllr:.3f} bits, cross-validated by {self.folds_of}"
            )
        if self.date:
            parts.append(self.date)
        return f"calibrated on {', '.join(parts)}"

    def content(self) -> dict[str, float | str | None]:
        """Return plain values for a network file."""
        entries = asdict(self)
        return {key: value for key, value in entries.items() if key in _MAP or value is not None}


def read_calibration(entry: Any, path: object) -> Calibration | None:
    """Read the calibration of a network file from its `entry`; None where it has none.

    Raises:
        AsdfError: the entry is not what `Calibration.content` returns.
    """
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or not _is_sound(entry):
        raise AsdfError(
            f"the calibration in {path} cannot be used: it was changed or damaged. Calibrate again."
        )
    return Calibration(**entry)


def _is_sound(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has finite numbers, a rising map, and all costs or none."""
    names = {*_MAP, *_TEXTS, *_NUMBERS, "windows"}
    if not set(_MAP) <= set(entry) <= names:
        return False
    if any(not isinstance(entry.get(name, ""), str) for name in _TEXTS):
        return False
    if not isinstance(entry.get("windows", {}), Mapping):
        return False
    missing_costs = [name for name in _COSTS if entry[name] is None]
    if missing_costs and len(missing_costs) < len(_COSTS):
        return False
    for name in set(entry).difference(missing_costs, _TEXTS, ["windows"]):
        if not isinstance(entry[name], float | int) or not math.isfinite(entry[name]):
            return False
    return bool(entry["scale"] > 0)


def calibrate(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, cost: DetectionCost | None = None
) -> Calibration:
    """Calibrate scores, with the threshold of `cost`, or without it that of their EER.

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    scale, offset = fit_llr(bona_fide, spoof)
    if cost is not None:
        return Calibration(
            scale, offset, cost.threshold, cost.spoof_prior, cost.miss, cost.false_alarm
        )
    threshold = scale * eer_threshold(bona_fide, spoof) + offset
    return Calibration(scale, offset, threshold)


def fit_llr(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, prior: float = 0.5
) -> tuple[float, float]:
    """Return scale and offset of the LLR with the lowest prior-weighted logistic loss.

    See `fit_weights` for the loss, and for scores without an error.

    Args:
        prior: Prior of bona fide.

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    (scale,), offset = fit_weights(bona_fide[:, None], spoof[:, None], prior)
    if scale <= 0:
        raise AsdfError(
            "higher scores do not mean bona fide in these scores: they cannot be calibrated. Check "
            "the labels, and that the scores are of this network's bona fide logit."
        )
    return scale, offset


def eer_threshold(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Return a threshold at the EER for decisions 'bona fide from it on'.

    It lies halfway between the last score that is rejected and the next one.
    """
    _, rejected = eer(bona_fide, spoof)
    classes = [as_scores("bona fide", bona_fide), as_scores("spoof", spoof)]
    scores = np.concatenate(classes)
    accepted = scores[scores > rejected]
    if not accepted.size:
        return float(np.nextafter(rejected, np.inf))
    return float((rejected + accepted.min()) / 2)
