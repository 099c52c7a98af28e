"""Metrics of a countermeasure together with speaker verification (ASV): t-DCF, a-DCF, t-EER.

Invariant: each value is that of the official package named beside it, given the same scores; rates are fractions.

    min_tdcf_legacy   Kinnunen et al., "t-DCF: a detection cost function for the tandem assessment of spoofing
                      countermeasures and automatic speaker verification", Odyssey 2018; the package of ASVspoof 2019
    min_tdcf          Kinnunen et al., "Tandem assessment of spoofing countermeasures and automatic speaker
                      verification: fundamentals", IEEE/ACM TASLP 28, 2020; the packages of ASVspoof 2021 and 5
    min_a_dcf         Shim et al., "a-DCF: an architecture agnostic metric with application to spoofing-robust speaker
                      verification", Odyssey 2024; the package of ASVspoof 5
    t_eer             Kinnunen et al., "t-EER: parameter-free tandem evaluation of countermeasures and biometric
                      comparators", IEEE TPAMI 2023; the package of ASVspoof 5 (`compute_teer`)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.metrics.detection import DetCurve, Floats, as_scores, eer
from asdf.trials.asv_scores import AsvScores


@dataclass(frozen=True)
class TandemCost:
    """Priors and costs of the tandem; the defaults are those of ASVspoof 2019, 2021 and 5."""

    target_prior: float = 0.9405
    nontarget_prior: float = 0.0095
    spoof_prior: float = 0.05
    miss: float = 1.0
    false_alarm: float = 10.0
    spoof_false_alarm: float = 10.0


@dataclass(frozen=True)
class AsvRates:
    """Error rates of an ASV system at its working point: of target, nontarget and spoof trials."""

    miss: float
    false_alarm: float
    spoof_false_alarm: float


TANDEM = TandemCost()
# Of the organisers' ASV system on the evaluation set of ASVspoof 5: its min t-DCF is taken with these.
ASVSPOOF5_ASV = AsvRates(
    miss=0.01880141010575793, false_alarm=0.01881016557566423, spoof_false_alarm=0.4607082907604729
)


def asv_rates(asv: AsvScores) -> AsvRates:
    """Return the rates of an ASV system at the threshold of its EER, target against nontarget."""
    _, threshold = eer(asv.target, asv.nontarget)
    return AsvRates(
        miss=float(np.mean(asv.target < threshold)),
        false_alarm=float(np.mean(asv.nontarget >= threshold)),
        spoof_false_alarm=float(np.mean(as_scores("ASV spoof", asv.spoof) >= threshold)),
    )


def min_tdcf_legacy(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, asv: AsvRates, cost: TandemCost = TANDEM
) -> float:
    """Return the minimum of the normalised t-DCF of ASVspoof 2019.

    Raises:
        AsdfError: a class is empty, a score is not finite, or the ASV system's rates leave the
            t-DCF undefined.
    """
    return min_tdcf_legacy_of(DetCurve.of(bona_fide, spoof), asv, cost)


def min_tdcf_legacy_of(curve: DetCurve, asv: AsvRates, cost: TandemCost = TANDEM) -> float:
    """Return `min_tdcf_legacy` of the trials of a curve."""
    c1 = (
        cost.target_prior * (cost.miss - cost.miss * asv.miss)
        - cost.nontarget_prior * cost.false_alarm * asv.false_alarm
    )
    c2 = cost.spoof_false_alarm * cost.spoof_prior * asv.spoof_false_alarm
    _check_weights(min(c1, c2), asv)
    return float((c1 * curve.frr + c2 * curve.far).min() / min(c1, c2))


def min_tdcf(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, asv: AsvRates, cost: TandemCost = TANDEM
) -> float:
    """Return the minimum of the normalised t-DCF of ASVspoof 2021 and 5.

    Raises:
        AsdfError: a class is empty, a score is not finite, or the ASV system's rates leave the
            t-DCF undefined.
    """
    return min_tdcf_of(DetCurve.of(bona_fide, spoof), asv, cost)


def min_tdcf_of(curve: DetCurve, asv: AsvRates, cost: TandemCost = TANDEM) -> float:
    """Return `min_tdcf` of the trials of a curve."""
    c0 = (
        cost.target_prior * cost.miss * asv.miss
        + cost.nontarget_prior * cost.false_alarm * asv.false_alarm
    )
    c1 = cost.target_prior * cost.miss - c0
    c2 = cost.spoof_prior * cost.spoof_false_alarm * asv.spoof_false_alarm
    _check_weights(min(c1, c2), asv)
    return float((c0 + c1 * curve.frr + c2 * curve.far).min() / (c0 + min(c1, c2)))


def min_a_dcf(
    target: npt.ArrayLike, nontarget: npt.ArrayLike, spoof: npt.ArrayLike, cost: TandemCost = TANDEM
) -> tuple[float, float]:
    """Return the minimum of the normalised a-DCF and its threshold.

    One score decides about a trial, whether it is a target, a nontarget or a spoof.

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    miss, false_alarm, spoof_false_alarm, thresholds = _tandem_curves(
        target, nontarget, spoof, below=1e-8
    )
    miss_weight = cost.miss * cost.target_prior
    nontarget_weight = cost.false_alarm * cost.nontarget_prior
    spoof_weight = cost.spoof_false_alarm * cost.spoof_prior
    costs = miss_weight * miss + nontarget_weight * false_alarm + spoof_weight * spoof_false_alarm
    # The cost of the better of accepting every trial and rejecting every trial.
    default = min(nontarget_weight + spoof_weight, miss_weight)
    a_dcf = costs / default
    best = int(np.argmin(a_dcf))
    return float(a_dcf[best]), float(thresholds[best])


def t_eer(asv: AsvScores, cm: AsvScores) -> float:
    """Return the concurrent t-EER as a fraction (the package prints per cent).

    It is where both systems' thresholds make the miss, nontarget and spoof rates equal. For every
    ASV threshold the countermeasure's threshold of equal tandem miss and false alarm rate is
    searched (half of the impostors being spoofs); the result is the spoofs' rate at the pair whose
    nontarget rate is nearest to it.

    Args:
        asv, cm: the two systems' scores of the same target, nontarget and spoof trials.

    Raises:
        AsdfError: a class is empty, a score is not finite, or no pair of thresholds has equal
            rates.
    """
    asv_miss, asv_fa, asv_spoof_fa, _ = _tandem_curves(
        asv.target, asv.nontarget, asv.spoof, below=0.001
    )
    cm_curve = DetCurve.of(np.concatenate([cm.target, cm.nontarget]), cm.spoof)
    cm_miss = cm_curve.frr
    cm_fa = cm_curve.far

    def excess(at: npt.NDArray[np.intp]) -> Floats:
        miss = cm_miss[at] + (1 - cm_miss[at]) * asv_miss
        return miss - (0.5 * (1 - cm_miss[at]) * asv_fa + 0.5 * cm_fa[at] * asv_spoof_fa)

    # The excess of misses rises along the CM curve, so all ASV thresholds are bisected at once.
    low = np.zeros(asv_miss.size, np.intp)
    high = np.full(asv_miss.size, cm_miss.size - 1)
    while (low < high).any():
        middle = (low + high) // 2
        reached = excess(middle) >= 0
        low = np.where(reached, low, middle + 1)
        high = np.where(reached, middle, high)
    before = np.maximum(low - 1, 0)
    at = np.where(np.abs(excess(before)) <= np.abs(excess(low)), before, low)
    allowed = asv_miss < 0.5 * asv_fa + 0.5 * asv_spoof_fa
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(
            allowed, np.abs(asv_fa / asv_spoof_fa - cm_fa[at] / (1 - cm_miss[at])), np.inf
        )
    best = int(np.argmin(np.nan_to_num(gap, nan=np.inf)))
    if not np.isfinite(gap[best]):
        raise AsdfError(
            "the t-EER is not defined: no ASV threshold misses fewer targets than it accepts impostors."
        )
    return float(asv_spoof_fa[best] * cm_fa[at[best]])


def _tandem_curves(
    target: npt.ArrayLike, nontarget: npt.ArrayLike, spoof: npt.ArrayLike, *, below: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return miss, nontarget and spoof false alarm rates, and thresholds, each (trials + 1,).

    Ties stay in the order target, nontarget, spoof, as the packages have them.
    """
    classes = (
        as_scores("target", target),
        as_scores("nontarget", nontarget),
        as_scores("spoof", spoof),
    )
    scores = np.concatenate(classes)
    kinds = np.repeat([0, 1, 2], [c.size for c in classes])
    order = np.argsort(scores, kind="stable")
    miss, fa, spoof_fa = (
        np.concatenate([[0.0], np.cumsum(kinds[order] == kind) / c.size])
        for kind, c in enumerate(classes)
    )
    thresholds = np.concatenate([[scores[order[0]] - below], scores[order]])
    return miss, 1 - fa, 1 - spoof_fa, thresholds


def _check_weights(least: float, asv: AsvRates) -> None:
    if least <= 0:
        raise AsdfError(
            f"the t-DCF is not defined for an ASV system of {asv}: it must accept some spoofs, and err rarely enough "
            "on target and nontarget trials. Check the ASV scores and their keys."
        )
