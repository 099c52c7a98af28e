"""Bootstrap intervals of EER and minDCF, and a paired test of two systems on the same trials.

Invariant: a replicate has exactly the metrics that `eer` and `min_dcf` give for the resampled
trials, but nothing is sorted again: the trials are put into blocks once, and a replicate is only
the number of trials of each class in each block. Trials of one speaker depend on each other: where
speakers are known, whole speakers are drawn, and the intervals hold for new speakers too.

Source: Bisani and Ney, "Bootstrap estimates for confidence intervals in ASR performance
evaluation", ICASSP 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from asdf.errors import AsdfError
from asdf.metrics.blocks import Blocks, Weights, into_blocks
from asdf.metrics.costs import ASVSPOOF5, DetectionCost, min_dcf_of
from asdf.metrics.detection import DetCurve, Floats
from asdf.metrics.resampling import (
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
    curve: DetCurve | None = None,
) -> Intervals:
    """Return bootstrap intervals of EER and minDCF.

    Without `speakers` bona fide and spoof trials are drawn separately, so that each class keeps its
    size; with `speakers` (one per trial) speakers are drawn with all their trials. The same seed
    gives the same intervals.

    Args:
        progress: called with the number of replicates drawn since its last call.
        curve: the DET curve of `scores`, if it is computed already.

    Raises:
        AsdfError: a class is empty, a score is not finite, or there are fewer than two speakers.
    """
    if curve is None:
        curve = DetCurve.of_scores(scores)
    if speakers is None:
        return curve_intervals(
            curve, replicates=replicates, level=level, seed=seed, cost=cost, progress=progress
        )
    blocks = into_blocks(curve)
    rng = np.random.default_rng(seed)
    draws = speaker_block_draws(blocks, scores.labels, speakers, replicates, rng)
    return _intervals(curve, draws, level, cost, progress)


def curve_intervals(
    curve: DetCurve,
    *,
    replicates: int,
    level: float = 0.95,
    seed: int = 0,
    cost: DetectionCost = ASVSPOOF5,
    progress: Callable[[int], None] | None = None,
) -> Intervals:
    """Return the intervals over the trials of a curve: see `confidence_intervals`."""
    rng = np.random.default_rng(seed)
    draws = block_draws(into_blocks(curve), replicates, rng)
    return _intervals(curve, draws, level, cost, progress)


def _intervals(
    curve: DetCurve,
    draws: Iterable[Weights],
    level: float,
    cost: DetectionCost,
    progress: Callable[[int], None] | None,
) -> Intervals:
    parts = []
    for counts in draws:
        part = weighted_metrics(counts.bona_fide, counts.spoof, cost)
        parts.append(part)
        if progress is not None:
            progress(part.shape[1])
    drawn = np.concatenate(parts, axis=1)
    measured = _values(curve, cost)
    return Intervals(
        eer=percentile_interval(measured.eer, drawn[0], level),
        min_dcf=percentile_interval(measured.min_dcf, drawn[1], level),
    )


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
    first_curve = DetCurve.of_scores(first)
    second_curve = DetCurve.of_scores(_align(first, second))
    first_blocks = into_blocks(first_curve)
    second_blocks = into_blocks(second_curve)
    # Draws of trials, not of blocks: each system has its own blocks, but the trials are shared.
    rng = np.random.default_rng(seed)
    if speakers is None:
        draws = trial_draws(first.labels, replicates, rng)
    else:
        draws = speaker_draws(first.labels, speakers, replicates, rng)
    parts = []
    for weights in draws:
        before = _replicate_metrics(first_blocks, weights, cost)
        after = _replicate_metrics(second_blocks, weights, cost)
        parts.append(after - before)
    drawn = np.concatenate(parts, axis=1)
    first_values = _values(first_curve, cost)
    second_values = _values(second_curve, cost)
    eer_difference = second_values.eer - first_values.eer
    dcf_difference = second_values.min_dcf - first_values.min_dcf
    return Intervals(
        eer=tested_interval(eer_difference, drawn[0], level),
        min_dcf=tested_interval(dcf_difference, drawn[1], level),
    )


class _Values(NamedTuple):
    eer: float
    min_dcf: float


def _values(curve: DetCurve, cost: DetectionCost) -> _Values:
    """Return EER and minDCF of the trials themselves."""
    rate, _ = curve.eer()
    return _Values(rate, min_dcf_of(curve, cost))


def _align(first: Scores, second: Scores) -> Scores:
    """Return `second` in the order of trials of `first`."""
    positions = {utterance: index for index, utterance in enumerate(second.ids)}
    in_second = [positions.get(utterance) for utterance in first.ids]
    if len(first) != len(second) or None in in_second:
        differing = sorted(set(first.ids) ^ set(second.ids))
        names = ", ".join(repr(utterance) for utterance in differing[:5])
        raise AsdfError(
            f"the systems were not scored on the same trials ({len(first)} and {len(second)}; in "
            f"one only: {names}). Compare score files of the same set."
        )
    index = np.array(in_second, np.intp)
    differs = np.flatnonzero(second.labels[index] != first.labels)
    if differs.size:
        raise AsdfError(
            f"the two systems' files label {first.ids[differs[0]]!r} differently. Compare the "
            "same set."
        )
    return Scores(first.ids, first.labels, second.scores[index])


def _replicate_metrics(blocks: Blocks, weights: Weights, cost: DetectionCost) -> Floats:
    """Return EER and minDCF, (2, 1), of one replicate with these weights of its trials."""
    sums = blocks.sums(weights.bona_fide, weights.spoof)
    return weighted_metrics(sums.bona_fide[None], sums.spoof[None], cost)


def percentile_interval(value: float, drawn: Floats, level: float = 0.95) -> Interval:
    """Return a value with the percentile interval of its replicates, (replicates,)."""
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def tested_interval(difference: float, drawn: Floats, level: float) -> Interval:
    """Return the interval of a difference with the p-value of its being zero."""
    below = (drawn <= 0).sum()
    above = (drawn >= 0).sum()
    # The sample itself counts as a replicate: no finite bootstrap can give a p of 0.
    tail = (1 + min(below, above)) / (1 + drawn.size)
    p_value = float(min(1.0, 2 * tail))
    return replace(percentile_interval(difference, drawn, level), p_value=p_value)
