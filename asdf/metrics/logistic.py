"""Logistic regression of the class of trials on the scores of one or several systems.

Invariant: the weights of the classes are given by the prior, however many trials they have, and the
solution is the minimum of a convex loss, independent of the order of trials or systems up to
rounding.

Source: Brümmer, FoCal, "Tools for fusion and calibration of automatic speaker detection systems",
2005: prior-weighted logistic regression.
"""

from __future__ import annotations

import math

import numpy as np

from asdf.arrays import Flags, Floats
from asdf.errors import AsdfError

_MAX_STEPS = 200
# Tolerance relative to the spread of the combined scores: touching classes count as separate.
_TOUCHING = 1e-9


def fit_weights(
    bona_fide_BS: Floats, spoof_PS: Floats, prior: float = 0.5, pseudo: float = 0.0
) -> tuple[list[float], float]:
    """Return weights and offset of the LLR with the lowest prior-weighted logistic loss.

    With LLR = weights @ scores + offset and t = log(prior / (1 - prior)), the loss is the sum of
    prior times the mean of log(1 + exp(-LLR - t)) over the bona fide trials and 1 - prior times
    that of log(1 + exp(LLR + t)) over the spoofs; with prior 0.5 it is Cllr. Newton's method
    minimises it. Systems whose scores are multiples of each other share their weight.

    If the weighted scores separate the classes, the loss has no minimum, since steeper is always
    better. The targets of the two classes are then not 1 and 0 but (n + 1) / (n + 2) and 1 / (n +
    2), as for classes with one more trial of either kind (Platt, "Probabilistic outputs for support
    vector machines", 1999): n trials without an error are no evidence for more.

    Args:
        bona_fide_BS, spoof_PS: Finite scores of the trials of each class, by S systems.
        prior: Prior of bona fide.
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

    weights = np.where(is_bona_fide, prior, 1 - prior) / sizes
    shift = math.log(prior / (1 - prior))

    def fit(margin: Floats) -> Floats:
        return _minimise(inputs, np.where(is_bona_fide, 1 - margin, margin), weights, shift)

    if pseudo:
        # A trial with its pseudo-data is one trial with a target between 0 and 1.
        share = pseudo / (2 * len(scores_NS))
        targets = (weights * is_bona_fide + share) / (weights + 2 * share)
        shrunk = _minimise(inputs, targets, weights + 2 * share, shift)
        return _put_back(shrunk.tolist(), scales)

    certain = np.zeros(len(scores_NS))
    cautious = 1 / (sizes + 2)
    if any(_are_apart(column, is_bona_fide) for column in scores_NS.T):
        return _put_back(fit(cautious).tolist(), scales)
    solution = fit(certain)
    # Only all systems together separate the classes, so the fit ends without a minimum.
    if len(columns) > 1 and _are_apart(inputs @ solution, is_bona_fide, _TOUCHING):
        solution = fit(cautious)
    return _put_back(solution.tolist(), scales)


def _are_apart(scores: Floats, is_bona_fide: Flags, tolerance: float = 0.0) -> bool:
    """Whether a threshold separates the classes, in either direction.

    Args:
        tolerance: Tolerated overlap, as a proportion of the spread of the scores.
    """
    bona_fide = scores[is_bona_fide]
    spoof = scores[~is_bona_fide]
    gap = max(bona_fide.min() - spoof.max(), spoof.min() - bona_fide.max())
    return bool(gap >= -tolerance * scores.std())


def _put_back(
    solution: list[float], scales: list[tuple[float, float]]
) -> tuple[list[float], float]:
    """Return weights and offset for the scores themselves, from those for standardised scores."""
    *slopes, offset = solution
    weights = []
    for slope, (centre, spread) in zip(slopes, scales, strict=True):
        weights.append(slope / spread)
        offset -= slope * centre / spread
    return weights, offset


def _minimise(inputs: Floats, targets: Floats, weights: Floats, shift: float) -> Floats:
    """Minimise the weighted cross-entropy of `targets` under sigmoid(inputs @ solution + shift).

    It is convex, and Newton's method with a line search finds its minimum.

    Args:
        inputs: Inputs (trials, S + 1) with a last column of ones; `targets` and `weights` are
            (trials,).
    """

    def loss(candidate: Floats) -> float:
        logits = inputs @ candidate + shift
        return float(weights @ (np.logaddexp(0, logits) - targets * logits))

    # Start at posteriors of one half, where the curvature is largest and the first step short.
    solution = np.zeros(inputs.shape[1])
    solution[-1] = -shift
    for _ in range(_MAX_STEPS):
        logits = inputs @ solution + shift
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
