"""Scores as log-likelihood ratios: an affine map and a threshold, fitted on a score file.

Invariant: the map rises, so it changes no order and no EER; fitted with prior 0.5 it has the least Cllr of all affine
maps on the scores that it was fitted on, the scores as they are among them.

Source: Brümmer, "Measuring, refining and calibrating speaker and language information extracted from speech", PhD
thesis, Stellenbosch University, 2010, and his toolkit FoCal: prior-weighted logistic regression.
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

_MOST_STEPS = 200


@dataclass(frozen=True)
class Calibration:
    """LLR = scale * score + offset, in natural logarithms; bona fide from `threshold` (an LLR) on.

    `spoof_prior`, `miss` and `false_alarm` are the costs whose Bayes threshold it is; None: it is that of the EER.
    """

    scale: float
    offset: float
    threshold: float
    spoof_prior: float | None = None
    miss: float | None = None
    false_alarm: float | None = None

    def llr(self, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The log-likelihood ratios of a network's scores, of any shape."""
        return self.scale * np.asarray(scores, np.float64) + self.offset

    def describe(self) -> str:
        """The decision in words."""
        if self.spoof_prior is None:
            return f"bona fide from an LLR of {self.threshold:.4g} on, where both error rates were equal"
        return (
            f"bona fide from an LLR of {self.threshold:.4g} on, the Bayes threshold where {self.spoof_prior:.4g} of "
            f"the recordings are spoofs, a missed bona fide costs {self.miss:g} and an accepted spoof "
            f"{self.false_alarm:g}"
        )

    def content(self) -> dict[str, float | None]:
        """Plain values for a network file."""
        return asdict(self)


def read_calibration(entry: Any, path: object) -> Calibration | None:
    """Read the calibration of a network file from its `entry`; None where it has none.

    Raises:
        AsdfError: the entry is not what `Calibration.content` gives.
    """
    if entry is None:
        return None
    names = {field.name for field in fields(Calibration)}
    costs = ("spoof_prior", "miss", "false_alarm")
    if not isinstance(entry, Mapping) or set(entry) != names:
        raise _unusable(path)
    given = [name for name in names if name not in costs or entry[name] is not None]
    sound = all(
        isinstance(entry[name], float | int) and math.isfinite(entry[name]) for name in given
    )
    if not sound or entry["scale"] <= 0 or len(given) not in (len(names), len(names) - len(costs)):
        raise _unusable(path)
    return Calibration(**entry)


def calibrate(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, cost: DetectionCost | None = None
) -> Calibration:
    """The calibration of scores, with the threshold of `cost`, or without it that of their EER.

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    scale, offset = fit_llr(bona_fide, spoof)
    if cost is not None:
        return Calibration(
            scale, offset, cost.threshold, cost.spoof_prior, cost.miss, cost.false_alarm
        )
    return Calibration(scale, offset, scale * eer_threshold(bona_fide, spoof) + offset)


def fit_llr(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, prior: float = 0.5
) -> tuple[float, float]:
    """Scale and offset of the LLR with the least prior-weighted logistic loss, by Newton's method.

    With t = log(prior / (1 - prior)) the loss is the sum of prior times the mean of log(1 + exp(-LLR - t)) over the
    bona fide trials and 1 - prior times that of log(1 + exp(LLR + t)) over the spoofs; with prior 0.5 it is Cllr.

    Where no bona fide trial scores below a spoof, the loss has no least value: the steeper, the better. The targets
    of the two classes are then not 1 and 0 but (n + 1) / (n + 2) and 1 / (n + 2), as of classes with one more trial
    of either kind (Platt, "Probabilistic outputs for support vector machines", 1999): n trials without an error are
    no evidence for more.

    Args:
        prior: of bona fide.

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    bona_fide, spoof = as_scores("bona fide", bona_fide), as_scores("spoof", spoof)
    scores = np.concatenate([bona_fide, spoof])
    # Scores of any size come to the same problem; the centre and spread are put back at the end.
    centre, spread = float(scores.mean()), float(scores.std())
    if spread == 0 or not math.isfinite(spread):
        raise AsdfError(
            "all scores are alike: there is nothing to calibrate. Did the training diverge?"
        )
    separable = bona_fide.min() >= spoof.max() or spoof.min() >= bona_fide.max()
    sizes = np.repeat([bona_fide.size, spoof.size], [bona_fide.size, spoof.size])
    is_bona_fide = np.arange(scores.size) < bona_fide.size
    margin = 1 / (sizes + 2) if separable else np.zeros(scores.size)
    targets = np.where(is_bona_fide, 1 - margin, margin)
    weights = np.where(is_bona_fide, prior, 1 - prior) / sizes
    inputs = np.stack([(scores - centre) / spread, np.ones(scores.size)], axis=1)
    slope, intercept = _newton(inputs, targets, weights, math.log(prior / (1 - prior)))
    if slope <= 0:
        raise AsdfError(
            "higher scores do not mean bona fide in these scores: they cannot be calibrated. Check the labels, and "
            "that the scores are of this network's bona fide logit."
        )
    return slope / spread, intercept - slope * centre / spread


def eer_threshold(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """A threshold at the EER for decisions 'bona fide from it on': between the last score rejected and the next."""
    rejected = eer(bona_fide, spoof)[1]
    scores = np.concatenate([as_scores("bona fide", bona_fide), as_scores("spoof", spoof)])
    accepted = scores[scores > rejected]
    return (
        float((rejected + accepted.min()) / 2)
        if accepted.size
        else float(np.nextafter(rejected, np.inf))
    )


def _newton(
    inputs: npt.NDArray[np.float64],
    targets: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    shift: float,
) -> tuple[float, float]:
    """Minimise the weighted cross-entropy of `targets` under sigmoid(inputs @ solution + shift); it is convex."""

    def loss(at: npt.NDArray[np.float64]) -> float:
        logits = inputs @ at + shift
        return float(weights @ (np.logaddexp(0, logits) - targets * logits))

    solution = np.array([0.0, -shift])
    for _ in range(_MOST_STEPS):
        posteriors = 0.5 * (1 + np.tanh((inputs @ solution + shift) / 2))
        gradient = inputs.T @ (weights * (posteriors - targets))
        curvature = (inputs * (weights * posteriors * (1 - posteriors))[:, None]).T @ inputs
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        gain = float(gradient @ step)
        if gain < 1e-26:
            break
        length = 1.0
        # So near the end the loss no longer shows the difference, and a full step is the best one.
        while (
            gain > 1e-12 and loss(solution - length * step) > loss(solution) - 1e-4 * length * gain
        ):
            length /= 2
        solution = solution - length * step
    return float(solution[0]), float(solution[1])


def _unusable(path: object) -> AsdfError:
    return AsdfError(
        f"the calibration in {path} cannot be used: it was changed or damaged. Calibrate again."
    )
