"""Maps from a network's scores to log-likelihood ratios, and the methods that fit them.

Invariant: every map is strictly increasing over all real numbers, so it preserves order and EER. An
affine map has a scale and an offset; one with knots is linear between them, and continues beyond
them with slope `scale`. Both classes have the same weight, however many trials they have, and the
solution is the minimum of a convex loss, independent of the order of trials or systems up to
rounding.

Methods:
    logistic: prior-weighted logistic regression (Brümmer, FoCal, "Tools for fusion and calibration
        of automatic speaker detection systems", 2005), of one system or several.
    regularised: the same with pseudo-data that shrink LLRs towards 0 (Morrison and Poh, "Avoiding
        overstating the strength of forensic evidence: Shrunk likelihood ratios/Bayes factors",
        Science & Justice 58, 2018): every trial counts in both classes as well, and all pseudo-data
        together weigh as much as one speaker, or as one trial where speakers are not known.
    bi-gaussian: Morrison, "Bi-Gaussianized calibration of likelihood ratios", Law, Probability and
        Risk 23, 2024: scores are warped to the distributions of a perfectly calibrated system that
        has the Cllr of the logistic map.

Quality of likelihood ratios: Tippett, ECE, reliability, Cllr's parts, devPAV.

Invariant: scores are read as natural-log likelihood ratios of bona fide against spoof, without any
mapping, so uncalibrated scores look as bad as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from asdf.arrays import Flags, Floats
from asdf.errors import AsdfError
from asdf.metrics.detection import DetCurve, as_scores, cllr, min_cllr_of, pav_llrs
from asdf.metrics.intervals import proportion_bounds

_MAX_STEPS = 200
# Tolerance relative to the spread of the combined scores: touching classes count as separate.
_TOUCHING = 1e-9
METHODS = ("logistic", "regularised", "bi-gaussian")
"""Names of the methods, the simplest first."""
AUTO = "auto"
"""Choice of the method with the lowest cross-validated Cllr."""
KNOTS = 33
"""Number of knots of a map that is not affine, equally spaced in LLR."""
LN10 = math.log(10)
"""The natural logarithm of ten, the number of nats per unit of log10."""


def log10_llr(llr: float) -> float:
    """Return a log-likelihood ratio to base ten, from one in natural logarithms.

    >>> round(log10_llr(math.log(1000)), 9)
    3.0
    """
    return llr / LN10


def describe_affine(scale: float, offset: float) -> str:
    """Return an affine map in words: '2 * score - 0.5'."""
    return f"{scale:.6g} * score {'-' if offset < 0 else '+'} {abs(offset):.6g}"


def fit_weights(
    bona_fide_BS: Floats, spoof_PS: Floats, pseudo: float = 0.0
) -> tuple[list[float], float]:
    """Return weights and offset of the LLR with the lowest Cllr.

    With LLR = weights @ scores + offset, Cllr is the logistic loss with equally weighted classes:
    half of the mean of log(1 + exp(-LLR)) over the bona fide trials and of log(1 + exp(LLR)) over
    the spoofs. Newton's method minimises it. Systems whose scores are multiples of each other share
    their weight.

    If the weighted scores separate the classes, the loss has no minimum, since steeper is always
    better. The targets of the two classes are then not 1 and 0 but (n + 1) / (n + 2) and 1 / (n +
    2), as for classes with one more trial of either kind (Platt, "Probabilistic outputs for support
    vector machines", 1999): n trials without an error are no evidence for more.

    Args:
        bona_fide_BS, spoof_PS: Finite scores of the trials of each class, by S systems.
        pseudo: Weight of pseudo-data relative to that of all trials: each trial also counts in both
            classes, with an equal part of half of it (Morrison and Poh, 2018). The loss then always
            has a minimum.

    Raises:
        AsdfError: all scores of a system are equal.
    """
    scores_NS = np.concatenate([bona_fide_BS, spoof_PS])
    class_sizes = [len(bona_fide_BS), len(spoof_PS)]
    sizes = np.repeat(class_sizes, class_sizes)
    is_bona_fide = np.arange(len(scores_NS)) < len(bona_fide_BS)
    # Scores are standardised, so their scale does not matter, and the solution is mapped back.
    columns = []
    scales = []
    for column in scores_NS.T:
        # Contiguous, so that numpy sums in the same order for any number of systems.
        contiguous = np.ascontiguousarray(column)
        centre = float(contiguous.mean())
        spread = float(contiguous.std())
        if spread == 0 or not math.isfinite(spread):
            raise AsdfError(
                "all scores are equal, so there is nothing to calibrate. Did the training diverge?"
            )
        columns.append((column - centre) / spread)
        scales.append((centre, spread))
    inputs = np.stack([*columns, np.ones(len(scores_NS))], axis=1)

    weights = 0.5 / sizes

    def fit(margin: Floats) -> Floats:
        return _minimise(inputs, np.where(is_bona_fide, 1 - margin, margin), weights)

    if pseudo:
        # A trial with its pseudo-data is one trial with a target between 0 and 1.
        share = pseudo / (2 * len(scores_NS))
        targets = (weights * is_bona_fide + share) / (weights + 2 * share)
        return _put_back(_minimise(inputs, targets, weights + 2 * share), scales)

    cautious = 1 / (sizes + 2)
    if any(_are_apart(column, is_bona_fide) for column in scores_NS.T):
        return _put_back(fit(cautious), scales)
    solution = fit(np.zeros(len(scores_NS)))
    # Only all systems together separate the classes, so the fit ends without a minimum.
    if len(columns) > 1 and _are_apart(inputs @ solution, is_bona_fide, _TOUCHING):
        solution = fit(cautious)
    return _put_back(solution, scales)


def _are_apart(scores: Floats, is_bona_fide: Flags, tolerance: float = 0.0) -> bool:
    """Whether a threshold separates the classes, in either direction.

    Args:
        tolerance: Tolerated overlap, as a proportion of the spread of the scores.
    """
    bona_fide = scores[is_bona_fide]
    spoof = scores[~is_bona_fide]
    gap = max(bona_fide.min() - spoof.max(), spoof.min() - bona_fide.max())
    return bool(gap >= -tolerance * scores.std())


def _put_back(solution: Floats, scales: list[tuple[float, float]]) -> tuple[list[float], float]:
    """Return weights and offset for the scores themselves, from those for standardised scores."""
    *slopes, offset = solution.tolist()
    weights = []
    for slope, (centre, spread) in zip(slopes, scales, strict=True):
        weights.append(slope / spread)
        offset -= slope * centre / spread
    return weights, offset


def _minimise(inputs: Floats, targets: Floats, weights: Floats) -> Floats:
    """Minimise the weighted cross-entropy of `targets` under sigmoid(inputs @ solution).

    It is convex, and Newton's method with a line search finds its minimum.

    Args:
        inputs: Inputs (trials, S + 1) with a last column of ones; `targets` and `weights` are
            (trials,).
    """

    def loss(candidate: Floats) -> float:
        logits = inputs @ candidate
        return float(weights @ (np.logaddexp(0, logits) - targets * logits))

    # Start at posteriors of one half, where the curvature is largest and the first step short.
    solution = np.zeros(inputs.shape[1])
    for _ in range(_MAX_STEPS):
        logits = inputs @ solution
        # Writing the sigmoid with tanh avoids overflow.
        posteriors = 0.5 * (1 + np.tanh(logits / 2))
        gradient = inputs.T @ (weights * (posteriors - targets))
        variances = weights * posteriors * (1 - posteriors)
        curvature = (inputs * variances[:, None]).T @ inputs
        # Not solve(), since the curvature is singular if all posteriors round to 0 or 1.
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        gain = float(gradient @ step)
        # A step is about as long as the root of its gain: 1e-13, where rounding dominates.
        if gain < 1e-26:
            break
        # Near the end, the loss no longer shows the difference, and a full step is best.
        length = 1.0
        if gain > 1e-12:
            current = loss(solution)
            # Armijo's rule: a step must gain a ten-thousandth of what the slope promises.
            required = 1e-4 * gain
            while loss(solution - length * step) > current - length * required:
                length /= 2
        solution = solution - length * step
    return solution


@dataclass(frozen=True)
class LlrMap:
    """A map from scores to natural-log likelihood ratios.

    Attributes:
        scale, offset: Parameters of LLR = scale * score + offset without knots; scale > 0.
        scores, llrs: Knots, both strictly increasing; empty for an affine map.
    """

    scale: float
    offset: float
    scores: tuple[float, ...] = ()
    llrs: tuple[float, ...] = ()

    def __call__(self, scores: npt.ArrayLike) -> Floats:
        """Return the LLRs of scores, of any shape."""
        scores = np.asarray(scores, np.float64)
        if not self.scores:
            return self.scale * scores + self.offset
        between = np.interp(scores, self.scores, self.llrs)
        beyond = scores - np.clip(scores, self.scores[0], self.scores[-1])
        llrs: Floats = between + self.scale * beyond
        return llrs

    def inverse(self, llr: float) -> float:
        """Return the score for an LLR, up to rounding."""
        if not self.scores:
            return (llr - self.offset) / self.scale
        between = float(np.interp(llr, self.llrs, self.scores))
        beyond = llr - float(np.clip(llr, self.llrs[0], self.llrs[-1]))
        return between + beyond / self.scale


def fit_map(
    method: str, bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, units: int | None = None
) -> LlrMap:
    """Fit one of the `METHODS` to the scores of both classes.

    Args:
        units: Number of independent units, such as speakers, for the pseudo-data of 'regularised';
            None if every trial is one.

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    pseudo = 0.0
    if method == "regularised":
        pseudo = 1 / (units or bona_fide.size + spoof.size)
    affine = LlrMap(*fit_llr(bona_fide, spoof, pseudo))
    return _bi_gaussianise(affine, bona_fide, spoof) if method == "bi-gaussian" else affine


def fit_llr(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, pseudo: float = 0.0
) -> tuple[float, float]:
    """Return scale and offset of the LLR with the lowest logistic loss (see `fit_weights`).

    Raises:
        AsdfError: a class is empty, a score is not finite, higher scores do not mean bona fide, or
            all are equal.
    """
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    (scale,), offset = fit_weights(bona_fide[:, None], spoof[:, None], pseudo)
    if scale <= 0:
        raise AsdfError(
            "higher scores do not mean bona fide here, so they cannot be calibrated. Check the "
            "labels, and that the scores are this network's bona fide logit."
        )
    return scale, offset


def _bi_gaussianise(affine: LlrMap, bona_fide: Floats, spoof: Floats) -> LlrMap:
    """Warp scores so that both classes have the distributions of a perfectly calibrated system.

    The quantiles of the scores, with equally weighted classes, become those of the mixture of N(-v
    / 2, v) and N(v / 2, v), whose variance v gives the Cllr of the `affine` map. A trial has the
    weight 1 / (n + 1) in its class of n. The paper's sources leave the remainder above the last
    score; here half of it lies at either end and a score at the middle of its own step, so that
    exchanging the classes negates every LLR and changes nothing else.
    """
    cost = cllr(affine(bona_fide), affine(spoof))
    sigma = bi_gaussian_sigma(cost)
    sizes = np.array([bona_fide.size, spoof.size])
    weights = np.repeat(0.5 / (sizes + 1), sizes)
    both = np.concatenate([bona_fide, spoof])
    scores, index = np.unique(both, return_inverse=True)
    steps = np.bincount(index, weights)
    remainder = 1 - steps.sum()
    # For each distinct score, between 0 and 1, with equally weighted classes.
    levels = remainder / 2 + np.cumsum(steps) - steps / 2
    lowest = _mixture_quantile(levels[0], sigma)
    highest = _mixture_quantile(levels[-1], sigma)
    if scores.size < 3 or lowest >= highest:
        return affine
    llrs = np.linspace(lowest, highest, KNOTS)
    levels_of_knots = [_mixture_cdf(llr, sigma) for llr in llrs]
    knots = np.interp(levels_of_knots, levels, scores)
    # Knots of dense scores may coincide after rounding.
    rises = np.append(True, np.diff(knots) > 0)
    return LlrMap(
        affine.scale, affine.offset, tuple(knots[rises].tolist()), tuple(llrs[rises].tolist())
    )


def bi_gaussian_cllr(sigma: float) -> float:
    """Return the Cllr in bits of a perfectly calibrated Gaussian system, by integration.

    Args:
        sigma: Standard deviation of the LLRs of either class, whose means are +-sigma ** 2 / 2.
    """
    # Up to 9 deviations, the trapezoidal rule has 9 digits: the integrand is smooth and vanishes.
    deviations = np.linspace(-9, 9, 361)
    densities = np.exp(-(deviations**2) / 2)
    llrs = sigma**2 / 2 + sigma * deviations
    costs = np.logaddexp(0, -llrs) / math.log(2)
    # Dividing by the sum of the densities accounts for spacing and normalisation.
    return float(densities @ costs / densities.sum())


def bi_gaussian_sigma(cost: float) -> float:
    """Return the deviation of the perfectly calibrated Gaussian system with this Cllr."""
    # Cllr falls with sigma, from 1 to 1e-9 at 12.5.
    return _bisect(lambda sigma: cost - bi_gaussian_cllr(sigma), 1e-6, 20.0)


def _mixture_cdf(llr: float, sigma: float) -> float:
    mean = sigma**2 / 2
    return (NormalDist(mean, sigma).cdf(llr) + NormalDist(-mean, sigma).cdf(llr)) / 2


def _mixture_quantile(level: float, sigma: float) -> float:
    furthest = sigma**2 / 2 + 9 * sigma
    return _bisect(lambda llr: _mixture_cdf(llr, sigma) - level, -furthest, furthest)


def _bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of an increasing function between two numbers, to the last bit."""
    while low < (middle := (low + high) / 2) < high:
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return high


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
        misleading = (float(np.mean(curve.bona_fide < 0)), float(np.mean(curve.spoof > 0)))
        return cls(np.sort(curve.bona_fide), np.sort(curve.spoof), *misleading)


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
        entropies = []
        for bona_fide, spoof in ((curve.bona_fide, curve.spoof), pav_llrs(curve), nothing):
            values = []
            # One prior at a time, since all at once would take gigabytes for large sets.
            for log_odds in (LN10 * log10_odds).tolist():
                prior = 1 / (1 + math.exp(-log_odds))
                misses = np.logaddexp(0, -(bona_fide + log_odds)).mean()
                false_alarms = np.logaddexp(0, spoof + log_odds).mean()
                values.append((prior * misses + (1 - prior) * false_alarms) / math.log(2))
            entropies.append(np.array(values))
        return cls(log10_odds, *entropies)


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
