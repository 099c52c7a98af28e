"""Costs of decisions and of log-likelihood ratios: minDCF, actDCF, Cllr, min Cllr.

Invariant: the defaults are the parameters of ASVspoof 5, track 1, and the values are those of its evaluation package.
actDCF and Cllr take the scores at their word, as natural-log likelihood ratios; minDCF and min Cllr do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.evaluation.blocks import into_blocks
from asdf.evaluation.detection import as_scores, det_curve


@dataclass(frozen=True)
class DetectionCost:
    """The parameters of the detection cost function; the defaults are those of ASVspoof 5, track 1."""

    spoof_prior: float = 0.05
    miss: float = 1.0
    false_alarm: float = 10.0

    def __post_init__(self) -> None:
        if not (0 < self.spoof_prior < 1 and self.miss > 0 and self.false_alarm > 0):
            raise ValueError(f"a prior lies between 0 and 1, costs are positive: {self}")

    @property
    def miss_weight(self) -> float:
        """What the miss rate of bona fide trials is weighted with."""
        return self.miss * (1 - self.spoof_prior)

    @property
    def false_alarm_weight(self) -> float:
        """What the false alarm rate of spoof trials is weighted with."""
        return self.false_alarm * self.spoof_prior

    @property
    def default(self) -> float:
        """The cost of the better of accepting everything and rejecting everything."""
        return min(self.miss_weight, self.false_alarm_weight)

    @property
    def threshold(self) -> float:
        """The Bayes threshold of natural-log likelihood ratios."""
        return float(-np.log(self.miss_weight / self.false_alarm_weight))


ASVSPOOF5 = DetectionCost()


def min_dcf(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, cost: DetectionCost = ASVSPOOF5
) -> float:
    """The least normalised detection cost over all thresholds (ASVspoof 5 evaluation plan, `compute_mindcf`).

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    frr, far, _ = det_curve(bona_fide, spoof)
    return float((cost.miss_weight * frr + cost.false_alarm_weight * far).min() / cost.default)


def act_dcf(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, cost: DetectionCost = ASVSPOOF5
) -> float:
    """The normalised detection cost at the Bayes threshold (ASVspoof 5 evaluation plan, `compute_actDCF`).

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    miss = np.mean(as_scores("bona fide", bona_fide) < cost.threshold)
    false_alarm = np.mean(as_scores("spoof", spoof) >= cost.threshold)
    return float((cost.miss_weight * miss + cost.false_alarm_weight * false_alarm) / cost.default)


def cllr(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """The cost of log-likelihood ratios in bits (Brümmer and du Preez, Computer Speech & Language 2006).

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    # logaddexp(0, x) is log(1 + exp(x)) that does not overflow for large x.
    miss = np.logaddexp(0, -as_scores("bona fide", bona_fide)).mean()
    false_alarm = np.logaddexp(0, as_scores("spoof", spoof)).mean()
    return float((miss + false_alarm) / 2 / np.log(2))


def min_cllr(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Cllr in bits after the best rising map of the scores, found by isotonic regression (PAV).

    Brümmer and du Preez, Computer Speech & Language 2006; raw posteriors as in the BOSARIS toolkit's `opt_loglr`,
    with no smoothing of the ends. Equal scores get equal ratios.

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    bona_fide, spoof = as_scores("bona fide", bona_fide), as_scores("spoof", spoof)
    pools: list[tuple[int, int]] = []
    for b, s in zip(
        *(counts.tolist() for counts in into_blocks(bona_fide, spoof).counts()), strict=True
    ):
        # The proportion of bona fide must rise from pool to pool; cross-multiplied, so that no s is divided by.
        while pools and pools[-1][0] * s >= b * pools[-1][1]:
            b, s = b + pools[-1][0], s + pools[-1][1]
            pools.pop()
        pools.append((b, s))
    # A pool's likelihood ratio is (b / bona fide) / (s / spoof); one of a single class costs nothing.
    b, s = np.array([pool for pool in pools if all(pool)], dtype=np.float64).reshape(-1, 2).T
    ratio = (b / bona_fide.size) / (s / spoof.size)
    miss = (b * np.log1p(1 / ratio)).sum() / bona_fide.size
    false_alarm = (s * np.log1p(ratio)).sum() / spoof.size
    return float((miss + false_alarm) / 2 / np.log(2))
