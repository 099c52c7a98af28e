"""The DET curve, the EER and the AUC, equal in all digits to the official ASVspoof packages.

Invariant: all metrics of this room use one order of trials, `pessimistic_order`: ascending scores,
and among equal scores bona fide before spoof, so that a tie counts as an error of both kinds. The
packages of ASVspoof 2019, 2021 and 5 (`compute_det_curve`, `compute_eer`) obtain it by a stable
sort of [bona fide, spoof]; without interpolation or convex hull, another order of ties gives
another EER. A `DetCurve` sorts once, and every metric of the same trials is computed from it.

Metrics and the bootstrap need only the block of each trial. A block is a sequence of bona fide
trials followed by spoof ones; a new block begins where a bona fide trial follows a spoof one. No
metric depends on the order of trials within a block and class. The cost of a threshold falls along
spoof trials and rises along bona fide ones, so its minimum lies between blocks, and isotonic
regression pools a block anyway. A good system has few blocks (a published one 338 for 71,237
trials), which makes the bootstrap and min Cllr cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asdf.arrays import Flags, Floats, Indices, Integers
from asdf.errors import AsdfError
from asdf.trials.score_file import Scores


def as_scores(name: str, values: npt.ArrayLike) -> Floats:
    """Return the scores of one class as a float64 vector.

    Raises:
        AsdfError: there are no scores, or one is not finite.
    """
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"{name} scores must be a vector, not of shape {scores.shape}")
    if not scores.size:
        raise AsdfError(
            f"there is no {name} trial: error rates need both classes. Check the labels of the set."
        )
    finite = np.isfinite(scores)
    if not finite.all():
        raise AsdfError(f"{(~finite).sum()} {name} scores are NaN or infinite. Score in fp32.")
    return scores


def pessimistic_order(bona_fide: Floats, spoof: Floats) -> Indices:
    """Return the indices that sort [bona fide, spoof] by score, bona fide first among equals."""
    return np.argsort(np.concatenate([bona_fide, spoof]), kind="stable")


@dataclass(frozen=True, eq=False)
class DetCurve:
    """The error rates of one detector on one set of trials, at every threshold.

    Attributes:
        bona_fide, spoof: Scores of the two classes, in the order of the arguments.
        order: Indices that sort [bona_fide, spoof] by `pessimistic_order`, (trials,).
        frr, far, thresholds: Miss rate, false alarm rate and threshold, each (trials + 1,). Entry 0
            accepts every trial (frr 0, far 1, threshold just below the lowest score); entry i
            rejects the i lowest trials of the order.
    """

    bona_fide: Floats
    spoof: Floats
    order: Indices
    frr: Floats
    far: Floats
    thresholds: Floats

    @classmethod
    def of(cls, bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> DetCurve:
        """Sort the trials of both classes and compute the curve.

        Raises:
            AsdfError: a class is empty, or a score is not finite.
        """
        bona_fide = as_scores("bona fide", bona_fide)
        spoof = as_scores("spoof", spoof)
        order = pessimistic_order(bona_fide, spoof)
        scores = np.concatenate([bona_fide, spoof])[order]
        missed = np.cumsum(order < bona_fide.size)
        rejected = np.arange(1, order.size + 1) - missed
        accepted = spoof.size - rejected
        return cls(
            bona_fide=bona_fide,
            spoof=spoof,
            order=order,
            frr=_prepend(0.0, missed / bona_fide.size),
            far=_prepend(1.0, accepted / spoof.size),
            # 0.001 as in the packages, whose thresholds are compared with these.
            thresholds=_prepend(scores[0] - 0.001, scores),
        )

    @classmethod
    def of_scores(cls, scores: Scores) -> DetCurve:
        """Compute the curve of scored trials; raises as `of`."""
        return cls.of(scores.bona_fide, scores.spoof)

    @property
    def is_bona_fide(self) -> Flags:
        """Whether each trial of the order is bona fide, (trials,)."""
        return self.order < self.bona_fide.size

    def eer(self) -> tuple[float, float]:
        """Return the equal error rate, as a fraction, and its threshold.

        It is taken at the first minimum of |frr - far| on the curve.
        """
        best = self.eer_index()
        rate = (self.frr[best] + self.far[best]) / 2
        return float(rate), float(self.thresholds[best])

    def eer_index(self) -> int:
        """Return the index of the curve's point at which the equal error rate is taken."""
        return int(np.argmin(np.abs(self.frr - self.far)))

    def auc(self) -> float:
        """Return the area under the ROC curve; a tie counts half.

        The Mann-Whitney statistic over the number of pairs (Hanley and McNeil, Radiology 1982).
        """
        # By searching rather than comparing pairs: ASVspoof 2019 LA alone has 470 million pairs.
        spoof = self.thresholds[1:][~self.is_bona_fide]
        below = np.searchsorted(spoof, self.bona_fide, side="left").sum()
        not_above = np.searchsorted(spoof, self.bona_fide, side="right").sum()
        pairs = self.bona_fide.size * spoof.size
        return float((below + not_above) / 2 / pairs)

    def miss_at(self, false_alarms: Sequence[float]) -> list[float]:
        """Return, for each false alarm rate, the lowest miss rate reachable at or below it.

        All rates are fractions.
        """
        misses = []
        for limit in false_alarms:
            # Along the curve, the miss rate rises and the false alarm rate falls.
            first = np.argmax(self.far <= limit)
            misses.append(float(self.frr[first]))
        return misses


def _prepend(value: float, values: Floats) -> Floats:
    return np.concatenate([[value], values])


def det_curve(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return frr, far and thresholds of `DetCurve`, each of shape (trials + 1,).

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import det_curve
        >>> misses, false_alarms, thresholds = det_curve([2.0, 1.0], [-1.0, 1.5])
        >>> [float(rate) for rate in misses]
        [0.0, 0.0, 0.5, 0.5, 1.0]
        >>> [float(rate) for rate in false_alarms]
        [1.0, 0.5, 0.5, 0.0, 0.0]
    """
    curve = DetCurve.of(bona_fide, spoof)
    return curve.frr, curve.far, curve.thresholds


def eer(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> tuple[float, float]:
    """Return the equal error rate, as a fraction, and its threshold: see `DetCurve.eer`.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import eer
        >>> rate, threshold = eer([2.0, 1.5, 0.3, 1.2], [-1.0, 0.5, -0.7, 0.1])
        >>> print(f"{rate:.2f} at {threshold:.1f}")
        0.25 at 0.3
    """
    return DetCurve.of(bona_fide, spoof).eer()


def auc(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Return how often a bona fide trial scores above a spoof one: see `DetCurve.auc`.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import auc
        >>> auc([2.0, 1.5, 0.3, 1.2], [-1.0, 0.5, -0.7, 0.1])
        0.9375
    """
    return DetCurve.of(bona_fide, spoof).auc()


Counts = Integers


class Weights(NamedTuple):
    """Numbers of times that trials or blocks of each class are counted."""

    bona_fide: Counts
    spoof: Counts


@dataclass(frozen=True, eq=False)
class Blocks:
    """The block of each trial, in the order of the curve's arguments; blocks ascend by score."""

    of_bona_fide: Indices
    of_spoof: Indices
    count: int

    def sums(self, bona_fide: Counts, spoof: Counts) -> Weights:
        """Sum integer weights of the trials over each block: two arrays of shape (blocks,)."""
        bona_fide_sums = np.bincount(self.of_bona_fide, bona_fide, self.count)
        spoof_sums = np.bincount(self.of_spoof, spoof, self.count)
        # bincount adds weights in float64, which is exact here; the EER needs integers.
        return Weights(bona_fide_sums.astype(np.int64), spoof_sums.astype(np.int64))

    def counts(self) -> Weights:
        """Count the bona fide and the spoof trials of each block: two arrays of shape (blocks,)."""
        # The last blocks may lack a class, and bincount ends with the last one that has any.
        return Weights(
            bona_fide=np.bincount(self.of_bona_fide, minlength=self.count),
            spoof=np.bincount(self.of_spoof, minlength=self.count),
        )


def into_blocks(curve: DetCurve) -> Blocks:
    """Put the trials of both classes into blocks."""
    is_bona_fide = curve.is_bona_fide
    follows_spoof = ~is_bona_fide[:-1]
    opens = is_bona_fide[1:] & follows_spoof
    block_in_order = np.concatenate([[0], np.cumsum(opens)])
    block = np.empty(curve.order.size, np.intp)
    block[curve.order] = block_in_order
    split = curve.bona_fide.size
    return Blocks(of_bona_fide=block[:split], of_spoof=block[split:], count=int(opens.sum()) + 1)
