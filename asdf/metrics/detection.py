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

Costs of decisions and of log-likelihood ratios: minDCF, actDCF, Cllr, min Cllr.

Invariant: the defaults are the parameters of ASVspoof 5, track 1, and the values equal those of its
evaluation package. actDCF and Cllr read the scores as natural-log likelihood ratios; minDCF and min
Cllr depend only on their order. Functions whose names end in `_of` take a `DetCurve`, which several
metrics can share.

Pool-adjacent-violators (PAV), the increasing map from scores to log-likelihood ratios with the
lowest Cllr, pools blocks of the common order of trials, so equal scores get equal ratios, and min
Cllr and all plots of PAV use the same pools. Source: Brümmer and du Preez, Computer Speech &
Language 2006; raw proportions as in the BOSARIS toolkit's `opt_loglr`, without smoothing of the
ends, whose ratios are 0 or infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from asdf.arrays import Flags, Floats, Indices, Integers
from asdf.errors import AsdfError, UsageError
from asdf.text import read_number
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
        # Along the curve, the miss rate rises and the false alarm rate falls.
        return [float(self.frr[np.argmax(self.far <= limit)]) for limit in false_alarms]


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


@dataclass(frozen=True)
class DetectionCost:
    """The parameters of the detection cost function, by default those of ASVspoof 5, track 1.

    Examples:
        >>> from asdf.evaluation import DetectionCost, min_dcf
        >>> cost = DetectionCost(spoof_prior=0.5, miss=1, false_alarm=1)
        >>> cost.threshold == 0  # of log-likelihood ratios, where both mistakes count alike
        True
        >>> min_dcf([2.0, 1.0], [-1.0, 1.5], cost)
        0.5
    """

    spoof_prior: float = 0.05
    miss: float = 1.0
    false_alarm: float = 10.0

    def __post_init__(self) -> None:
        are_positive = all(0 < value < np.inf for value in vars(self).values())
        if not are_positive or self.spoof_prior >= 1:
            raise ValueError(f"the prior must lie between 0 and 1, and costs above 0: {self}")

    @property
    def miss_weight(self) -> float:
        """The weight of the miss rate of bona fide trials."""
        return self.miss * (1 - self.spoof_prior)

    @property
    def false_alarm_weight(self) -> float:
        """The weight of the false alarm rate of spoof trials."""
        return self.false_alarm * self.spoof_prior

    @property
    def default(self) -> float:
        """The cost of the better of accepting everything and rejecting everything."""
        return min(self.miss_weight, self.false_alarm_weight)

    @property
    def threshold(self) -> float:
        """The Bayes threshold of natural-log likelihood ratios."""
        return float(-np.log(self.miss_weight / self.false_alarm_weight))

    def named(self) -> dict[str, float]:
        """Return the parameters by their names on the command line."""
        return {name: getattr(self, key) for name, key in COST_NAMES.items()}

    def describe(self) -> str:
        """Return the parameters as `with_costs` reads them."""
        return ",".join(f"{name}={value:g}" for name, value in self.named().items())


ASVSPOOF5 = DetectionCost()
COST_NAMES = {"p_spoof": "spoof_prior", "cost_miss": "miss", "cost_fa": "false_alarm"}
"""Parameters of `DetectionCost` by their names on the command line."""
NAMED_COSTS = {
    "asvspoof2019": "p_spoof=0.05,cost_miss=1,cost_fa=10",
    "asvspoof5": "p_spoof=0.05,cost_miss=1,cost_fa=10",
    "nist2008": "p_spoof=0.99,cost_miss=10,cost_fa=1",
    "nist2010": "p_spoof=0.999,cost_miss=1,cost_fa=1",
}
"""Costs of evaluation plans: of the countermeasure in ASVspoof 2019's t-DCF and in ASVspoof 5, and
of NIST's speaker recognition evaluations, where a target has the prior 0.01 and 0.001."""
_Costs = TypeVar("_Costs")


def with_costs(costs: _Costs, text: str | None, names: Mapping[str, str] = COST_NAMES) -> _Costs:
    """Return costs with those of a text such as 'p_spoof=0.1,cost_fa=20' in place of their own.

    Args:
        costs: A dataclass that refuses impossible values.
        text: Values by name, or a name of `NAMED_COSTS`.
        names: Its attributes by their names in the text.

    Raises:
        UsageError: a part is not of this form, or a value is impossible.
    """
    values = {}
    plans = NAMED_COSTS if names is COST_NAMES else {}
    for part in filter(None, plans.get(text or "", text or "").split(",")):
        name, _, number = part.partition("=")
        try:
            values[names[name.strip()]] = read_number(number)
        except (KeyError, ValueError):
            known = ", ".join([*names, *plans])
            raise UsageError(
                f"--costs {text}: {part!r} is not NAME=NUMBER. Names: {known}."
            ) from None
    try:
        return replace(costs, **values)  # type: ignore[type-var]
    except ValueError as error:
        raise UsageError(f"--costs {text}: {error}.") from None


def min_dcf(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, cost: DetectionCost = ASVSPOOF5
) -> float:
    """Return the minimum of the normalised detection cost over all thresholds.

    ASVspoof 5 evaluation plan, `compute_mindcf`.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import min_dcf
        >>> round(min_dcf([2.0, 1.5, 0.3, 1.2], [-1.0, 0.5, -0.7, 0.1]), 4)
        0.25
    """
    return min_dcf_of(DetCurve.of(bona_fide, spoof), cost)


def min_dcf_of(curve: DetCurve, cost: DetectionCost = ASVSPOOF5) -> float:
    """Return `min_dcf` of the trials of a curve."""
    costs = cost.miss_weight * curve.frr + cost.false_alarm_weight * curve.far
    return float(costs.min() / cost.default)


def act_dcf(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, cost: DetectionCost = ASVSPOOF5
) -> float:
    """Return the normalised detection cost at the Bayes threshold.

    ASVspoof 5 evaluation plan, `compute_actDCF`.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import act_dcf
        >>> round(act_dcf([2.0, 1.5, 0.3, 1.2], [-1.0, 0.5, -0.7, 0.1]), 4)
        0.5
    """
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    frr = np.mean(bona_fide < cost.threshold)
    far = np.mean(spoof >= cost.threshold)
    return float((cost.miss_weight * frr + cost.false_alarm_weight * far) / cost.default)


def cllr(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Return the cost of log-likelihood ratios in bits.

    Brümmer and du Preez, Computer Speech & Language 2006.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import cllr
        >>> round(cllr([2.0, 1.5, 0.3, 1.2], [-1.0, 0.5, -0.7, 0.1]), 4)
        0.6458
    """
    # logaddexp(0, x) is log(1 + exp(x)) that does not overflow for large x.
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    miss = np.logaddexp(0, -bona_fide).mean()
    false_alarm = np.logaddexp(0, spoof).mean()
    return float((miss + false_alarm) / 2 / np.log(2))


def min_cllr(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Return Cllr in bits after the best rising map of the scores, by isotonic regression (PAV).

    Brümmer and du Preez, Computer Speech & Language 2006; raw posteriors as in the BOSARIS
    toolkit's `opt_loglr`, with no smoothing of the ends. Equal scores get equal ratios.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import min_cllr
        >>> round(min_cllr([2.0, 1.5, 0.3, 1.2], [-1.0, 0.5, -0.7, 0.1]), 4)
        0.25
    """
    return min_cllr_of(DetCurve.of(bona_fide, spoof))


def min_cllr_of(curve: DetCurve) -> float:
    """Return `min_cllr` of the trials of a curve."""
    pools = Pools.of(curve)
    # Pools of a single class have no cost: their likelihood ratio is 0 or infinite.
    has_both = (pools.bona_fide > 0) & (pools.spoof > 0)
    bona_fide = pools.bona_fide[has_both].astype(np.float64)
    spoof = pools.spoof[has_both].astype(np.float64)
    ratio = (bona_fide / curve.bona_fide.size) / (spoof / curve.spoof.size)
    miss = (bona_fide * np.log1p(1 / ratio)).sum() / curve.bona_fide.size
    false_alarm = (spoof * np.log1p(ratio)).sum() / curve.spoof.size
    return float((miss + false_alarm) / 2 / np.log(2))


@dataclass(frozen=True, eq=False)
class Pools:
    """Pools of adjacent blocks with an increasing proportion of bona fide trials.

    Attributes:
        bona_fide, spoof: Numbers of trials of each pool, (pools,).
        blocks: Numbers of blocks of each pool, (pools,).
    """

    bona_fide: Integers
    spoof: Integers
    blocks: Integers

    @classmethod
    def of(cls, curve: DetCurve) -> Pools:
        """Pool the blocks of a curve's trials."""
        pools: list[tuple[int, int, int]] = []
        counts = into_blocks(curve).counts()
        both = zip(counts.bona_fide.tolist(), counts.spoof.tolist(), strict=True)
        for bona_fide, spoof in both:
            blocks = 1
            # Cross-multiplied, to avoid division by a count of spoofs.
            while pools and pools[-1][0] * spoof >= bona_fide * pools[-1][1]:
                before = pools.pop()
                bona_fide += before[0]
                spoof += before[1]
                blocks += before[2]
            pools.append((bona_fide, spoof, blocks))
        return cls(*np.array(pools, dtype=np.int64).reshape(-1, 3).T)

    def llrs(self) -> Floats:
        """Return the natural-log likelihood ratio of each pool, (pools,); the ends may be ±inf."""
        with np.errstate(divide="ignore"):
            bona_fide = np.log(self.bona_fide / self.bona_fide.sum())
            spoof = np.log(self.spoof / self.spoof.sum())
        ratios: Floats = bona_fide - spoof
        return ratios


def pav_llrs(curve: DetCurve) -> tuple[Floats, Floats]:
    """Return the natural-log likelihood ratios that PAV gives the trials of a curve.

    Returns:
        Ratios of the bona fide and of the spoof trials, each in the order of the curve's arguments;
        -inf and inf below and above all trials of the other class.
    """
    pools = Pools.of(curve)
    of_block = np.repeat(pools.llrs(), pools.blocks)
    blocks = into_blocks(curve)
    return of_block[blocks.of_bona_fide], of_block[blocks.of_spoof]
