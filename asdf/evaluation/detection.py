"""The DET curve, the EER and the AUC, to the digit those of the official ASVspoof packages.

Invariant: one order of trials, `pessimistic_order`, is behind every metric of this room: ascending scores, and among
equal scores bona fide before spoof, so that a tie counts as an error of both kinds. The packages of ASVspoof 2019, 2021
and 5 (`compute_det_curve`, `compute_eer`) get it from a stable sort of [bona fide, spoof]; without interpolation or
convex hull a different order of ties is a different EER.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError

Floats = npt.NDArray[np.float64]


def as_scores(name: str, values: npt.ArrayLike) -> Floats:
    """The scores of one class as a float64 vector.

    Raises:
        AsdfError: there is none, or one is not finite.
    """
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"{name} scores must be a vector, not of shape {scores.shape}")
    if not scores.size:
        raise AsdfError(
            f"there is no {name} trial: error rates need both classes. Check the labels of the set."
        )
    if not np.isfinite(scores).all():
        raise AsdfError(
            f"{(~np.isfinite(scores)).sum()} {name} scores are NaN or infinite. Score in fp32."
        )
    return scores


def pessimistic_order(bona_fide: Floats, spoof: Floats) -> npt.NDArray[np.intp]:
    """Indices that sort [bona fide, spoof] by score, bona fide first among equals."""
    return np.argsort(np.concatenate([bona_fide, spoof]), kind="stable")


def det_curve(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Miss and false alarm rates at every threshold.

    Returns:
        frr, far, thresholds, each of shape (trials + 1,): entry 0 accepts every trial (frr 0, far 1, threshold just
        below the lowest score); entry i rejects the i lowest trials of the pessimistic order.

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    bona_fide, spoof = as_scores("bona fide", bona_fide), as_scores("spoof", spoof)
    order = pessimistic_order(bona_fide, spoof)
    missed = np.cumsum(order < bona_fide.size)
    rejected = np.arange(1, order.size + 1) - missed
    scores = np.concatenate([bona_fide, spoof])[order]
    frr = np.concatenate([[0.0], missed / bona_fide.size])
    far = np.concatenate([[1.0], (spoof.size - rejected) / spoof.size])
    return frr, far, np.concatenate([[scores[0] - 0.001], scores])


def eer(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> tuple[float, float]:
    """The equal error rate, as a fraction, and its threshold: where |frr - far| is first least on the DET curve.

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    frr, far, thresholds = det_curve(bona_fide, spoof)
    best = int(np.argmin(np.abs(frr - far)))
    return float((frr[best] + far[best]) / 2), float(thresholds[best])


def auc(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Area under the ROC curve: how often a bona fide trial scores above a spoof one; a tie counts half.

    The Mann-Whitney statistic over the number of pairs (Hanley and McNeil, Radiology 1982).

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    bona_fide, spoof = as_scores("bona fide", bona_fide), np.sort(as_scores("spoof", spoof))
    below = np.searchsorted(spoof, bona_fide, side="left").sum()
    not_above = np.searchsorted(spoof, bona_fide, side="right").sum()
    return float((below + not_above) / 2 / (bona_fide.size * spoof.size))
