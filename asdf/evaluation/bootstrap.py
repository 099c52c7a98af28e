"""How sure the EER and minDCF are: bootstrap intervals, and a paired test of two systems on the same trials.

Invariant: a replicate has exactly the metrics that `eer` and `min_dcf` give for the resampled trials, but nothing is
sorted again: the trials are put into blocks once, and a replicate is only how many trials of each class each block has.
Trials of one speaker hang together: where speakers are given, whole speakers are drawn, and the intervals hold for new
speakers too.

Source: Bisani and Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.errors import AsdfError
from asdf.evaluation.blocks import Blocks, into_blocks
from asdf.evaluation.costs import ASVSPOOF5, DetectionCost, min_dcf
from asdf.evaluation.detection import Floats, as_scores, eer
from asdf.evaluation.resampling import (
    Weights,
    block_draws,
    speaker_block_draws,
    speaker_draws,
    trial_draws,
    weighted_metrics,
)
from asdf.evaluation.score_file import Scores

SIGNIFICANT = 0.05
"""Below this p-value two systems differ."""


@dataclass(frozen=True)
class Interval:
    """A value with its bootstrap percentile interval; `p_value` is that of a difference being zero, else None."""

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

    Without `speakers` bona fide and spoof trials are drawn apart, each class keeping its size; with `speakers` (one a
    trial) speakers are drawn with all their trials. The same seed gives the same intervals. `progress` is told how many
    replicates have been drawn since it was last called.

    Raises:
        AsdfError: a class is empty, a score is not finite, or there are fewer than two speakers.
    """
    rng = np.random.default_rng(seed)
    bona_fide, spoof = as_scores("bona fide", scores.bona_fide), as_scores("spoof", scores.spoof)
    blocks = into_blocks(bona_fide, spoof)
    if speakers is None:
        draws = block_draws(blocks, replicates, rng)
    else:
        draws = speaker_block_draws(blocks, scores.labels, speakers, replicates, rng)
    parts = []
    for counts in draws:
        parts.append(weighted_metrics(*counts, cost))
        if progress is not None:
            progress(parts[-1].shape[1])
    drawn = np.concatenate(parts, axis=1)
    values = eer(bona_fide, spoof)[0], min_dcf(bona_fide, spoof, cost)
    return Intervals(
        *(_interval(value, row, level) for value, row in zip(values, drawn, strict=True))
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
    """The differences second - first of EER and minDCF: below zero, the second system is the better one.

    Both systems are scored on the same draws of the trials, so what they share cancels out. `speakers` are those of
    the trials of `first`. The two-sided p-value is twice the smaller proportion of replicates on either side of zero.

    Raises:
        AsdfError: the systems were not scored on the same trials; or as `confidence_intervals`.
    """
    second = _aligned(first, second)
    rng = np.random.default_rng(seed)
    systems = [
        (as_scores("bona fide", s.bona_fide), as_scores("spoof", s.spoof)) for s in (first, second)
    ]
    blocks = [into_blocks(*system) for system in systems]
    if speakers is None:
        draws = trial_draws(first.labels, replicates, rng)
    else:
        draws = speaker_draws(first.labels, speakers, replicates, rng)
    one, other = blocks
    drawn = np.concatenate(
        [_metrics(other, w, cost) - _metrics(one, w, cost) for w in draws], axis=1
    )
    values = [(eer(*system)[0], min_dcf(*system, cost)) for system in systems]
    return Intervals(
        *(
            _interval(b - a, row, level, tested=True)
            for a, b, row in zip(*values, drawn, strict=True)
        )
    )


def _aligned(first: Scores, second: Scores) -> Scores:
    """`second` in the order of trials of `first`."""
    place = {utterance: i for i, utterance in enumerate(second.ids)}
    if len(first) != len(second) or any(utterance not in place for utterance in first.ids):
        only = sorted(set(first.ids) ^ set(second.ids))[:5]
        raise AsdfError(
            f"the systems were not scored on the same trials ({len(first)} and {len(second)}; in one only: "
            f"{', '.join(map(repr, only))}). Compare score files of the same set."
        )
    index = np.array([place[utterance] for utterance in first.ids])
    if (differs := np.flatnonzero(second.labels[index] != first.labels)).size:
        raise AsdfError(
            f"the two systems' files label {first.ids[differs[0]]!r} differently. Compare the same set."
        )
    return Scores(first.ids, first.labels, second.scores[index])


def _metrics(blocks: Blocks, weights: Weights, cost: DetectionCost) -> Floats:
    """EER and minDCF of one replicate given by the weights of its trials: (2, 1)."""
    bona_fide, spoof = blocks.sums(*weights)
    return weighted_metrics(bona_fide[None], spoof[None], cost)


def _interval(value: float, drawn: Floats, level: float, *, tested: bool = False) -> Interval:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    # One is added to both counts, as if the sample itself were a replicate: no finite bootstrap can give a p of 0.
    tail = (1 + min((drawn <= 0).sum(), (drawn >= 0).sum())) / (1 + drawn.size)
    return Interval(value, float(low), float(high), float(min(1.0, 2 * tail)) if tested else None)
