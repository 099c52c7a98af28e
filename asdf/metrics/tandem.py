"""Metrics of a countermeasure together with speaker verification (ASV): t-DCF, a-DCF, t-EER.

Invariant: each value is that of the official package named with it, for the same scores; rates are
fractions. Functions whose names end in `_of` take a `DetCurve`, which several metrics can share.

    min_tdcf_legacy   Kinnunen et al., "t-DCF: a detection cost function for the tandem assessment
                      of spoofing countermeasures and automatic speaker verification", Odyssey 2018;
                      the package of ASVspoof 2019
    min_tdcf          Kinnunen et al., "Tandem assessment of spoofing countermeasures and automatic
                      speaker verification: fundamentals", IEEE/ACM TASLP 28, 2020; the packages of
                      ASVspoof 2021 and 5
    min_a_dcf         Shim et al., "a-DCF: an architecture agnostic metric with application to
                      spoofing-robust speaker verification", Odyssey 2024; the package of ASVspoof 5
    t_eer             Kinnunen et al., "t-EER: parameter-free tandem evaluation of countermeasures
                      and biometric comparators", IEEE TPAMI 2023; the package of ASVspoof 5
                      (`compute_teer`)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats, Indices
from asdf.errors import AsdfError
from asdf.metrics.detection import DetCurve, as_scores, eer
from asdf.trials.score_file import AsvScores


@dataclass(frozen=True)
class TandemCost:
    """Priors and costs of the tandem; the defaults are those of ASVspoof 2019, 2021 and 5.

    Examples:
        >>> from asdf.evaluation import TandemCost, min_a_dcf
        >>> cost = TandemCost(target_prior=0.9, nontarget_prior=0.05, spoof_prior=0.05)
        >>> round(cost.target_weight, 2), round(cost.spoof_weight, 2)
        (0.9, 0.5)
        >>> cost_of_all, threshold = min_a_dcf([3.0, 2.0], [-1.0, 0.0], [1.0, 0.5], cost)
        >>> cost_of_all
        0.0
    """

    target_prior: float = 0.9405
    nontarget_prior: float = 0.0095
    spoof_prior: float = 0.05
    miss: float = 1.0
    false_alarm: float = 10.0
    spoof_false_alarm: float = 10.0

    def __post_init__(self) -> None:
        are_positive = all(0 < value < np.inf for value in vars(self).values())
        rest = 1 - self.target_prior - self.nontarget_prior - self.spoof_prior
        if not are_positive or abs(rest) > 1e-9:
            raise ValueError(f"priors must be above 0 with a sum of 1, and costs above 0: {self}")

    @property
    def target_weight(self) -> float:
        """The cost of rejecting all targets."""
        return self.miss * self.target_prior

    @property
    def nontarget_weight(self) -> float:
        """The cost of accepting all nontargets."""
        return self.false_alarm * self.nontarget_prior

    @property
    def spoof_weight(self) -> float:
        """The cost of accepting all spoofs."""
        return self.spoof_false_alarm * self.spoof_prior


@dataclass(frozen=True)
class AsvRates:
    """Error rates of an ASV system at its working point: of target, nontarget and spoof trials.

    Examples:
        >>> from asdf.evaluation import AsvRates, min_tdcf
        >>> rates = AsvRates(miss=0.02, false_alarm=0.02, spoof_false_alarm=0.4)
        >>> round(min_tdcf([2.0, 1.0, 0.5], [-1.0, 1.5, -2.0], rates), 3)
        0.396
    """

    miss: float
    false_alarm: float
    spoof_false_alarm: float


TANDEM = TandemCost()
# The rates of the organisers' ASV system on the evaluation set of ASVspoof 5, which its min t-DCF
# is defined with.
ASVSPOOF5_ASV = AsvRates(
    miss=0.01880141010575793, false_alarm=0.01881016557566423, spoof_false_alarm=0.4607082907604729
)


def asv_rates(asv: AsvScores) -> AsvRates:
    """Return the rates of an ASV system at the threshold of its EER, target against nontarget.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import AsvScores, asv_rates
        >>> target, nontarget = np.array([3.0, 2.0, 1.0, 0.0]), np.array([-2.0, -1.0, 0.5, 1.5])
        >>> asv_rates(AsvScores(target, nontarget, spoof=np.array([2.5, -0.5])))
        AsvRates(miss=0.25, false_alarm=0.5, spoof_false_alarm=0.5)
    """
    _, threshold = eer(asv.target, asv.nontarget)
    return asv_rates_at(asv, threshold)


def asv_rates_at(asv: AsvScores, threshold: float) -> AsvRates:
    """Return the rates of an ASV system that accepts scores from `threshold` on."""
    # Targets and nontargets were checked when their EER was computed, but the spoofs were not.
    spoof = as_scores("ASV spoof", asv.spoof)
    miss = np.mean(asv.target < threshold)
    false_alarm = np.mean(asv.nontarget >= threshold)
    spoof_false_alarm = np.mean(spoof >= threshold)
    return AsvRates(float(miss), float(false_alarm), float(spoof_false_alarm))


def min_tdcf_legacy(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, asv: AsvRates, cost: TandemCost = TANDEM
) -> float:
    """Return the minimum of the normalised t-DCF of ASVspoof 2019.

    Raises:
        AsdfError: a class is empty, a score is not finite, or the ASV system's rates leave the
            t-DCF undefined.

    Examples:
        >>> from asdf.evaluation import AsvScores, asv_rates, min_tdcf_legacy
        >>> import numpy as np
        >>> asv = AsvScores(np.array([2.0, 1.0]), np.array([-2.0, 1.5]), np.array([0.5, 1.2]))
        >>> round(min_tdcf_legacy([2.0, 1.5, 0.3], [-1.0, 0.5, -0.7], asv_rates(asv)), 4)
        0.3333
    """
    return min_tdcf_legacy_of(DetCurve.of(bona_fide, spoof), asv, cost)


def min_tdcf_legacy_of(curve: DetCurve, asv: AsvRates, cost: TandemCost = TANDEM) -> float:
    """Return `min_tdcf_legacy` of the trials of a curve."""
    # As in the package: a factor (1 - asv.miss) would round differently.
    c1 = cost.target_prior * (cost.miss - cost.miss * asv.miss)
    c1 -= cost.nontarget_prior * cost.false_alarm * asv.false_alarm
    c2 = cost.spoof_false_alarm * cost.spoof_prior * asv.spoof_false_alarm
    # Normalised by the better of countermeasures that accept or reject all trials.
    lower = min(c1, c2)
    _check_weights(lower, asv)
    costs = c1 * curve.frr + c2 * curve.far
    return float(costs.min() / lower)


def min_tdcf(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, asv: AsvRates, cost: TandemCost = TANDEM
) -> float:
    """Return the minimum of the normalised t-DCF of ASVspoof 2021 and 5.

    Raises:
        AsdfError: a class is empty, a score is not finite, or the ASV system's rates leave the
            t-DCF undefined.

    Examples:
        >>> from asdf.evaluation import AsvScores, asv_rates, min_tdcf
        >>> import numpy as np
        >>> asv = AsvScores(np.array([2.0, 1.0]), np.array([-2.0, 1.5]), np.array([0.5, 1.2]))
        >>> round(min_tdcf([2.0, 1.5, 0.3], [-1.0, 0.5, -0.7], asv_rates(asv)), 4)
        0.4398
    """
    return min_tdcf_of(DetCurve.of(bona_fide, spoof), asv, cost)


def min_tdcf_of(curve: DetCurve, asv: AsvRates, cost: TandemCost = TANDEM) -> float:
    """Return `min_tdcf` of the trials of a curve."""
    missed_targets = cost.target_prior * cost.miss * asv.miss
    accepted_nontargets = cost.nontarget_prior * cost.false_alarm * asv.false_alarm
    c0 = missed_targets + accepted_nontargets
    c1 = cost.target_prior * cost.miss - c0
    c2 = cost.spoof_prior * cost.spoof_false_alarm * asv.spoof_false_alarm
    lower = min(c1, c2)
    _check_weights(lower, asv)
    costs = c0 + c1 * curve.frr + c2 * curve.far
    return float(costs.min() / (c0 + lower))


def min_a_dcf(
    target: npt.ArrayLike, nontarget: npt.ArrayLike, spoof: npt.ArrayLike, cost: TandemCost = TANDEM
) -> tuple[float, float]:
    """Return the minimum of the normalised a-DCF and its threshold.

    One score decides on every trial, be it a target, a nontarget or a spoof.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import min_a_dcf
        >>> cost, threshold = min_a_dcf([2.0, 1.0], [-1.0, 0.2], [0.5, 1.2])
        >>> round(cost, 4)
        0.4202
    """
    curve = _TandemCurve.of(target, nontarget, spoof, below=1e-8)
    costs = cost.target_weight * curve.miss + cost.nontarget_weight * curve.false_alarm
    costs += cost.spoof_weight * curve.spoof_false_alarm
    # The cost of the better of accepting and rejecting every trial.
    default = min(cost.nontarget_weight + cost.spoof_weight, cost.target_weight)
    best = int(np.argmin(costs / default))
    return float(costs[best] / default), float(curve.thresholds[best])


def t_eer(asv: AsvScores, cm: AsvScores) -> float:
    """Return the concurrent t-EER as a fraction (the package prints per cent).

    It is the point where both systems' thresholds make the miss, nontarget and spoof rates equal.
    For every ASV threshold, the countermeasure's threshold with equal tandem miss and false alarm
    rates is searched (half of the impostors being spoofs); the result is the spoofs' rate at the
    pair whose nontarget rate is nearest to it.

    Args:
        asv, cm: Scores of the two systems for the same target, nontarget and spoof trials.

    Raises:
        AsdfError: a class is empty, a score is not finite, or no pair of thresholds has equal
            rates.

    Examples:
        >>> from asdf.evaluation import AsvScores, t_eer
        >>> import numpy as np
        >>> asv = AsvScores(
        ...     np.array([2.0, 1.0, 0.2]),
        ...     np.array([-2.0, 1.5, -0.4]),
        ...     np.array([0.5, 1.2, 0.1]),
        ... )
        >>> cm = AsvScores(
        ...     np.array([2.2, 0.4, 1.0]),
        ...     np.array([1.9, 0.8, 1.1]),
        ...     np.array([-0.5, 0.6, -1.0]),
        ... )
        >>> round(t_eer(asv, cm), 4)
        0.3333
    """
    speech = np.concatenate([cm.target, cm.nontarget])
    return t_eer_of(asv, DetCurve.of(speech, cm.spoof))


def t_eer_of(asv: AsvScores, cm: DetCurve) -> float:
    """Return `t_eer` for a countermeasure's curve, with targets and nontargets as bona fide."""
    return t_eer_path(asv, cm).concurrent().rate


@dataclass(frozen=True)
class ConcurrentPoint:
    """The concurrent t-EER, as a fraction, and the thresholds of the two systems there."""

    rate: float
    asv_threshold: float
    cm_threshold: float


@dataclass(frozen=True, eq=False)
class TandemPath:
    """Pairs of thresholds with equal tandem miss and false alarm rates, each (ASV thresholds,).

    Attributes:
        asv_thresholds, cm_thresholds: Thresholds of both systems, a pair for each ASV threshold.
        rates: Mean of both tandem rates of the pair, with half of the impostors being spoofs.
        spoof_rates: Proportion of spoofs that pass both systems.
        gaps: Distance between the nontarget and the spoof rate; infinite if the ASV system misses
            at least as many targets as it accepts impostors, since such pairs are not used.
    """

    asv_thresholds: Floats
    cm_thresholds: Floats
    rates: Floats
    spoof_rates: Floats
    gaps: Floats

    def concurrent(self) -> ConcurrentPoint:
        """Return the point of the path at which all three rates are equal.

        Raises:
            AsdfError: there is no such point.
        """
        best = int(np.argmin(self.gaps))
        if not np.isfinite(self.gaps[best]):
            raise AsdfError(
                "the t-EER is not defined: no ASV threshold misses fewer targets than it accepts "
                "impostors."
            )
        return ConcurrentPoint(
            rate=float(self.spoof_rates[best]),
            asv_threshold=float(self.asv_thresholds[best]),
            cm_threshold=float(self.cm_thresholds[best]),
        )


def t_eer_path(asv: AsvScores, cm: DetCurve) -> TandemPath:
    """Return the path of equal tandem rates: see `t_eer`."""
    tandem = _TandemCurve.of(asv.target, asv.nontarget, asv.spoof, below=0.001)
    cm_index = _equal_tandem_rates(tandem, cm)
    impostors = 0.5 * tandem.false_alarm + 0.5 * tandem.spoof_false_alarm
    is_allowed = tandem.miss < impostors
    cm_miss = cm.frr[cm_index]
    cm_false_alarm = cm.far[cm_index]
    # Ratios of 0 to 0 are NaN, which becomes the largest gap below.
    with np.errstate(divide="ignore", invalid="ignore"):
        asv_ratio = tandem.false_alarm / tandem.spoof_false_alarm
        cm_ratio = cm_false_alarm / (1 - cm_miss)
        gap = np.abs(asv_ratio - cm_ratio)
    gap = np.where(is_allowed, gap, np.inf)
    miss = cm_miss + (1 - cm_miss) * tandem.miss
    nontargets = (1 - cm_miss) * tandem.false_alarm
    spoofs = tandem.spoof_false_alarm * cm_false_alarm
    return TandemPath(
        asv_thresholds=tandem.thresholds,
        cm_thresholds=cm.thresholds[cm_index],
        rates=(miss + 0.5 * nontargets + 0.5 * spoofs) / 2,
        spoof_rates=spoofs,
        gaps=np.nan_to_num(gap, nan=np.inf),
    )


def _equal_tandem_rates(tandem: _TandemCurve, cm: DetCurve) -> Indices:
    """Return the index of the CM threshold with equal tandem rates, for each ASV threshold."""

    def excess(index: Indices) -> Floats:
        """Return the tandem's miss rate minus its false alarm rate at these CM thresholds."""
        frr = cm.frr[index]
        miss = frr + (1 - frr) * tandem.miss
        nontargets = 0.5 * (1 - frr) * tandem.false_alarm
        spoofs = 0.5 * cm.far[index] * tandem.spoof_false_alarm
        return miss - (nontargets + spoofs)

    # The excess of misses rises along the CM curve, so all ASV thresholds are bisected at once.
    low = np.zeros(tandem.miss.size, np.intp)
    high = np.full(tandem.miss.size, cm.frr.size - 1)
    while (low < high).any():
        middle = (low + high) // 2
        is_reached = excess(middle) >= 0
        low = np.where(is_reached, low, middle + 1)
        high = np.where(is_reached, middle, high)
    before = np.maximum(low - 1, 0)
    is_closer_before = np.abs(excess(before)) <= np.abs(excess(low))
    return np.where(is_closer_before, before, low)


@dataclass(frozen=True, eq=False)
class _TandemCurve:
    """Rates of one system on target, nontarget and spoof trials, each (trials + 1,)."""

    miss: Floats
    false_alarm: Floats
    spoof_false_alarm: Floats
    thresholds: Floats

    @classmethod
    def of(
        cls, target: npt.ArrayLike, nontarget: npt.ArrayLike, spoof: npt.ArrayLike, *, below: float
    ) -> _TandemCurve:
        """Sort the trials; the first threshold lies `below` the lowest score.

        Ties stay in the order target, nontarget, spoof, as in the packages.
        """
        named = {"target": target, "nontarget": nontarget, "spoof": spoof}
        classes = [as_scores(name, values) for name, values in named.items()]
        scores = np.concatenate(classes)
        order = np.argsort(scores, kind="stable")
        sizes = [trials.size for trials in classes]
        kinds = np.repeat([0, 1, 2], sizes)[order]
        rejected = []
        for kind, trials in enumerate(classes):
            rates = np.cumsum(kinds == kind) / trials.size
            rejected.append(np.concatenate([[0.0], rates]))
        lowest = scores[order[0]]
        return cls(
            miss=rejected[0],
            false_alarm=1 - rejected[1],
            spoof_false_alarm=1 - rejected[2],
            thresholds=np.concatenate([[lowest - below], scores[order]]),
        )


def _check_weights(lower: float, asv: AsvRates) -> None:
    if lower <= 0:
        raise AsdfError(
            f"the t-DCF is not defined for an ASV system of {asv}: it must accept some spoofs, and "
            "err rarely enough on target and nontarget trials. Check the ASV scores and their keys."
        )
