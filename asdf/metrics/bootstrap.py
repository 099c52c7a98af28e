"""Bootstrap intervals of EER and minDCF, and a paired test of two systems on the same trials.

Invariant: a replicate has exactly the metrics that `eer` and `min_dcf` give for the resampled
trials, but nothing is sorted again: the trials are put into blocks once, and a replicate is only
the number of trials of each class in each block. Trials of one speaker depend on each other: where
speakers are known, whole speakers are drawn, and the intervals hold for new speakers too.

Source: Bisani and Ney, "Bootstrap estimates for confidence intervals in ASR performance
evaluation", ICASSP 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.errors import AsdfError
from asdf.metrics.blocks import Blocks, into_blocks
from asdf.metrics.costs import ASVSPOOF5, DetectionCost, min_dcf_of
from asdf.metrics.detection import DetCurve, Floats
from asdf.metrics.resampling import (
    Weights,
    block_draws,
    speaker_block_draws,
    speaker_draws,
    trial_draws,
    weighted_metrics,
)
from asdf.trials.score_file import Scores

SIGNIFICANT = 0.05
"""Below this p-value two systems differ."""


@dataclass(frozen=True)
class Interval:
    """A value with its bootstrap percentile interval.

    Attributes:
        p_value: that of a difference being zero; None for other values.
    """

    value: float
    low: float
    high: float
    p_value: float | None = None


@dataclass(frozen=True)
class Intervals:
    """The intervals of the two metrics, as fractions."""

    eer: Interval
    min_dcf: Interval


def confidence_intervals(
    scores: Scores,
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    cost: DetectionCost = ASVSPOOF5,
    progress: Callable[[int], None] | None = None,
) -> Intervals:
    """Bootstrap intervals of EER and minDCF.

    Without `speakers` bona fide and spoof trials are drawn separately, so that each class keeps its
    size; with `speakers` (one per trial) speakers are drawn with all their trials. The same seed
    gives the same intervals.

    Args:
        progress: called with the number of replicates drawn since its last call.

    Raises:
        AsdfError: a class is empty, a score is not finite, or there are fewer than two speakers.
    """
    rng = np.random.default_rng(seed)
    blocks = into_blocks(scores.det_curve)
    if speakers is None:
        draws = block_draws(blocks, replicates, rng)
    else:
        draws = speaker_block_draws(blocks, scores.labels, speakers, replicates, rng)
    parts = []
    for counts in draws:
        part = weighted_metrics(*counts, cost)
        parts.append(part)
        if progress is not None:
            progress(part.shape[1])
    drawn = np.concatenate(parts, axis=1)
    rate, dcf = _values(scores.det_curve, cost)
    return Intervals(_interval(rate, drawn[0], level), _interval(dcf, drawn[1], level))


def paired_test(
    first: Scores,
    second: Scores,
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    cost: DetectionCost = ASVSPOOF5,
) -> Intervals:
    """Return the differences second - first of EER and minDCF; below zero the second is better.

    Both systems are scored on the same draws of the trials, so what they share cancels out. The
    two-sided p-value is twice the smaller proportion of replicates on either side of zero.

    Args:
        speakers: those of the trials of `first`.

    Raises:
        AsdfError: the systems were not scored on the same trials; or as `confidence_intervals`.
    """
    second = _aligned(first, second)
    rng = np.random.default_rng(seed)
    first_blocks = into_blocks(first.det_curve)
    second_blocks = into_blocks(second.det_curve)
    if speakers is None:
        draws = trial_draws(first.labels, replicates, rng)
    else:
        draws = speaker_draws(first.labels, speakers, replicates, rng)
    parts = []
    for weights in draws:
        before = _metrics(first_blocks, weights, cost)
        after = _metrics(second_blocks, weights, cost)
        parts.append(after - before)
    drawn = np.concatenate(parts, axis=1)
    first_rate, first_dcf = _values(first.det_curve, cost)
    second_rate, second_dcf = _values(second.det_curve, cost)
    return Intervals(
        _interval(second_rate - first_rate, drawn[0], level, tested=True),
        _interval(second_dcf - first_dcf, drawn[1], level, tested=True),
    )


def _values(curve: DetCurve, cost: DetectionCost) -> tuple[float, float]:
    """Return EER and minDCF of the trials themselves."""
    rate, _ = curve.eer()
    return rate, min_dcf_of(curve, cost)


def _aligned(first: Scores, second: Scores) -> Scores:
    """Return `second` in the order of trials of `first`."""
    positions = {utterance: i for i, utterance in enumerate(second.ids)}
    if len(first) != len(second) or any(one not in positions for one in first.ids):
        only = sorted(set(first.ids) ^ set(second.ids))[:5]
        raise AsdfError(
            f"the systems were not scored on the same trials ({len(first)} and {len(second)}; in "
            f"one only: {', '.join(map(repr, only))}). Compare score files of the same set."
        )
    index = np.array([positions[utterance] for utterance in first.ids])
    differs = np.flatnonzero(second.labels[index] != first.labels)
    if differs.size:
        raise AsdfError(
            f"the two systems' files label {first.ids[differs[0]]!r} differently. Compare the "
            "same set."
        )
    return Scores(first.ids, first.labels, second.scores[index])


def _metrics(blocks: Blocks, weights: Weights, cost: DetectionCost) -> Floats:
    """Return EER and minDCF, (2, 1), of one replicate with these weights of its trials."""
    bona_fide, spoof = blocks.sums(*weights)
    return weighted_metrics(bona_fide[None], spoof[None], cost)


def _interval(value: float, drawn: Floats, level: float, *, tested: bool = False) -> Interval:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    if not tested:
        return Interval(value, float(low), float(high))
    # The sample itself counts as a replicate: no finite bootstrap can give a p of 0.
    smaller_side = min((drawn <= 0).sum(), (drawn >= 0).sum())
    tail = (1 + smaller_side) / (1 + drawn.size)
    return Interval(value, float(low), float(high), float(min(1.0, 2 * tail)))
