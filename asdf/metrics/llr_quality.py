"""Quality of likelihood ratios: Tippett, ECE, reliability, Cllr's parts, devPAV.

Invariant: scores are read as natural-log likelihood ratios of bona fide against spoof, without any
mapping, so uncalibrated scores look as bad as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats
from asdf.metrics.costs import cllr, min_cllr_of, pav_llrs
from asdf.metrics.detection import DetCurve
from asdf.metrics.intervals import proportion_bounds
from asdf.metrics.llr_maps import LN10

_BINS = 10


@dataclass(frozen=True, eq=False)
class Tippett:
    """Proportions of both classes whose likelihood ratio is at least a value.

    Meuwly, PhD thesis, University of Lausanne, 2001, after Tippett et al., Journal of the Forensic
    Science Society 8, 1968.

    Attributes:
        bona_fide, spoof: Natural-log likelihood ratios in ascending order. The proportion of a
            class with an LLR of at least entry i is (size - i) / size.
        misleading_bona_fide: Proportion of bona fide trials with an LLR below 0.
        misleading_spoof: Proportion of spoof trials with an LLR above 0.
    """

    bona_fide: Floats
    spoof: Floats
    misleading_bona_fide: float
    misleading_spoof: float

    @classmethod
    def of(cls, curve: DetCurve) -> Tippett:
        """Sort the trials of a curve."""
        return cls(
            np.sort(curve.bona_fide),
            np.sort(curve.spoof),
            float(np.mean(curve.bona_fide < 0)),
            float(np.mean(curve.spoof > 0)),
        )


@dataclass(frozen=True, eq=False)
class EmpiricalCrossEntropy:
    """The mean missing information in bits after a trial's ratio, as a function of prior odds.

    Ramos and Gonzalez-Rodriguez, "Reliable support: measuring calibration of likelihood ratios",
    Forensic Science International 230, 2013. At prior odds of 1, these are Cllr and min Cllr.

    Attributes:
        log10_odds: Prior odds of bona fide, as log10, (priors,).
        llrs: Cross-entropy in bits of the ratios as given, (priors,).
        calibrated: Cross-entropy after PAV on the same trials, the minimum over increasing maps.
        reference: Cross-entropy with ratios of 1, which carry no information.
    """

    log10_odds: Floats
    llrs: Floats
    calibrated: Floats
    reference: Floats

    @classmethod
    def of(cls, curve: DetCurve, log10_odds: Floats | None = None) -> EmpiricalCrossEntropy:
        """Compute the curves over prior odds, by default from 1:1,000 to 1,000:1."""
        if log10_odds is None:
            log10_odds = np.linspace(-3, 3, 121)
        nothing = (np.zeros(1), np.zeros(1))
        return cls(
            log10_odds,
            _cross_entropies(curve.bona_fide, curve.spoof, log10_odds),
            _cross_entropies(*pav_llrs(curve), log10_odds),
            _cross_entropies(*nothing, log10_odds),
        )


def _cross_entropies(bona_fide: Floats, spoof: Floats, log10_odds: Floats) -> Floats:
    """Return the cross-entropy in bits for each prior."""
    values = []
    # One prior at a time, since all at once would take gigabytes for large sets.
    for log_odds in (LN10 * log10_odds).tolist():
        prior = 1 / (1 + math.exp(-log_odds))
        misses = np.logaddexp(0, -(bona_fide + log_odds)).mean()
        false_alarms = np.logaddexp(0, spoof + log_odds).mean()
        values.append((prior * misses + (1 - prior) * false_alarms) / math.log(2))
    return np.array(values)


@dataclass(frozen=True)
class ReliabilityBin:
    """Trials with similar stated probabilities of bona fide.

    Attributes:
        predicted: Mean stated probability.
        observed: Proportion of bona fide trials.
        low, high: Ends of the 95 % interval of the proportion, for independent trials.
        trials: Number of trials.
    """

    predicted: float
    observed: float
    low: float
    high: float
    trials: int


def reliability(curve: DetCurve, bins: int = _BINS) -> list[ReliabilityBin]:
    """Return how often trials are bona fide, by the probability that their ratios state.

    The prior is the proportion of bona fide trials in the set, so the proportions need no weights.
    Bins have equal width; empty ones are left out.

    DeGroot and Fienberg, "The comparison and evaluation of forecasters", The Statistician 32, 1983;
    intervals as `proportion_bounds`.
    """
    llrs = np.concatenate([curve.bona_fide, curve.spoof])
    log_odds = llrs + math.log(curve.bona_fide.size / curve.spoof.size)
    # exp(-log(1 + exp(-x))) is 1 / (1 + exp(-x)) that does not overflow.
    stated = np.exp(-np.logaddexp(0, -log_odds))
    indices = np.minimum((stated * bins).astype(np.intp), bins - 1)
    is_bona_fide = np.arange(llrs.size) < curve.bona_fide.size
    result = []
    for index in np.unique(indices):
        inside = indices == index
        trials = int(inside.sum())
        bona_fide = int(is_bona_fide[inside].sum())
        low, high = proportion_bounds(bona_fide, trials)
        predicted = float(stated[inside].mean())
        result.append(ReliabilityBin(predicted, bona_fide / trials, low, high, trials))
    return result


@dataclass(frozen=True)
class LlrQuality:
    """Numbers on likelihood ratios.

    Attributes:
        cllr: Cost of the ratios in bits.
        min_cllr: Part of it that remains after the best increasing map: discrimination.
        cllr_cal: Remaining part, which better calibration would remove.
        dev_pav: Mean distance of the ratios to their PAV map, in log10; None if PAV has no finite
            ratio, as for classes that do not overlap.
    """

    cllr: float
    min_cllr: float
    cllr_cal: float
    dev_pav: float | None

    def describe(self) -> str:
        """Return the numbers in words."""
        text = (
            f"Cllr {self.cllr:.3f} bits: {self.min_cllr:.3f} by discrimination and "
            f"{self.cllr_cal:.3f} by calibration"
        )
        if self.dev_pav is not None:
            text += f"; devPAV {self.dev_pav:.3f} (log10)"
        return text


def llr_quality(curve: DetCurve) -> LlrQuality:
    """Return Cllr in its parts (Brümmer and du Preez 2006), and devPAV."""
    total = cllr(curve.bona_fide, curve.spoof)
    least = min_cllr_of(curve)
    return LlrQuality(total, least, total - least, dev_pav(curve))


def dev_pav(curve: DetCurve) -> float | None:
    """Return the mean distance between ratios and their PAV map, in log10; None if none is finite.

    It is the area between the map and the identity line over the map's finite part, divided by its
    width: Vergeer et al., "Measuring calibration of likelihood-ratio systems: a comparison of four
    metrics, including a new metric devPAV", Forensic Science International 321, 2021.
    """
    llrs = np.concatenate([curve.bona_fide, curve.spoof]) / LN10
    mapped = np.concatenate(pav_llrs(curve)) / LN10
    finite = np.isfinite(mapped)
    points = np.unique(np.stack([llrs[finite], mapped[finite]], axis=1), axis=0)
    if not len(points):
        return None
    x, y = points.T
    above = y - x
    if len(points) == 1:
        return float(abs(above[0]))
    widths = np.diff(x)
    sides = np.abs(above)
    before, after = sides[:-1], sides[1:]
    # A line that crosses the identity leaves two triangles, else a trapezoid.
    crosses = above[:-1] * above[1:] < 0
    sums = np.where(before + after > 0, before + after, 1)
    triangles = (before**2 + after**2) / sums
    heights = np.where(crosses, triangles, before + after) / 2
    return float((heights * widths).sum() / widths.sum())
