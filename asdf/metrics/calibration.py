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
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.metrics.costs import DetectionCost
from asdf.metrics.detection import as_scores, eer
from asdf.metrics.logistic import fit_weights

_COSTS = ("spoof_prior", "miss", "false_alarm")


@dataclass(frozen=True)
class Calibration:
    """LLR = scale * score + offset, in natural logarithms; bona fide from `threshold` (an LLR) on.

    Attributes:
        spoof_prior, miss, false_alarm: the costs whose Bayes threshold it is; None where it is that
            of the EER.
    """

    scale: float
    offset: float
    threshold: float
    spoof_prior: float | None = None
    miss: float | None = None
    false_alarm: float | None = None

    def llr(self, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
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

    def content(self) -> dict[str, float | None]:
        """Return plain values for a network file."""
        return asdict(self)


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
    names = {field.name for field in fields(Calibration)}
    if set(entry) != names:
        return False
    missing_costs = [name for name in _COSTS if entry[name] is None]
    if missing_costs and len(missing_costs) < len(_COSTS):
        return False
    for name in names.difference(missing_costs):
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
        prior: of bona fide.

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
