"""The networks of one configuration, one per seed, measured on the same draws of the trials.

Invariant: a draw follows from the seed of the bootstrap and the trials alone, so all networks that
were scored on the same trials are measured on the same draws, whatever else is compared, and the
order of a score file does not count. Different sets are drawn independently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.errors import AsdfError
from asdf.metrics.blocks import Blocks, Weights, into_blocks
from asdf.metrics.costs import ASVSPOOF5, DetectionCost, min_dcf_of
from asdf.metrics.detection import DetCurve, Floats
from asdf.metrics.leading import speakers_of
from asdf.metrics.resampling import (
    block_draws,
    speaker_block_draws,
    speaker_draws,
    trial_draws,
    weighted_metrics,
)
from asdf.runs.seeds import generator
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

_METRICS = 2
"""EER and minDCF, in this order, along an axis."""


@dataclass(frozen=True, eq=False)
class SeedDraws:
    """EER and minDCF of a configuration's networks, one per seed, on a set and on draws of it.

    Attributes:
        seeds: the name of each network's seed.
        measured: (seeds, 2).
        drawn: (seeds, 2, replicates).
        trials: what draws of the same trials have in common.
        by_speakers: whole speakers were drawn, not trials.
    """

    seeds: tuple[str, ...]
    measured: Floats
    drawn: Floats
    trials: str
    by_speakers: bool

    @property
    def replicates(self) -> int:
        """The number of draws."""
        return int(self.drawn.shape[-1])


# Options with defaults, by keyword.
def draw_seeds(
    seeds: Sequence[str],
    scores: Sequence[Scores],
    trials: TrialList | None = None,
    *,
    replicates: int = 1000,
    seed: int = 0,
    cost: DetectionCost = ASVSPOOF5,
    is_compared: bool = True,
) -> SeedDraws:
    """Measure the networks of a configuration on a set, and on draws of its trials.

    Args:
        scores: those of each seed's network.
        trials: what the corpus says of the trials; where it knows all speakers, these are drawn.
        is_compared: draw so that other networks on the same trials get the same draws; a single
            network that is not compared is drawn in far less time.

    Raises:
        AsdfError: the networks were not scored on the same trials, or as `confidence_intervals`.
    """
    ordered = [_in_order(part) for part in scores]
    first = ordered[0]
    trials_key = _trials_key(first)
    for part in ordered[1:]:
        if _trials_key(part) != trials_key:
            raise AsdfError(
                f"the networks of seeds {', '.join(seeds)} were not scored on the same trials "
                f"({', '.join(str(len(part)) for part in ordered)}). Score all of them on the same "
                "set."
            )
    curves = list(map(DetCurve.of_scores, ordered))
    speakers = speakers_of(first, trials)
    # From the trials: sets are drawn independently of each other, whatever their order.
    rng = generator(seed, "trials", trials_key)
    if is_compared or len(curves) > 1:
        drawn = _shared_draws(curves, first, speakers, replicates, rng, cost)
    else:
        drawn = _draws_of_one(curves[0], first, speakers, replicates, rng, cost)
    measured = np.array([(curve.eer()[0], min_dcf_of(curve, cost)) for curve in curves])
    return SeedDraws(tuple(seeds), measured, drawn, trials_key, speakers is not None)


def average_of_sets(sets: Sequence[SeedDraws]) -> SeedDraws:
    """Return the unweighted mean of the metrics over sets; the sets are drawn independently."""
    measured = np.mean([draws.measured for draws in sets], axis=0)
    drawn = np.mean([draws.drawn for draws in sets], axis=0)
    trials = " ".join(draws.trials for draws in sets)
    by_speakers = all(draws.by_speakers for draws in sets)
    return SeedDraws(sets[0].seeds, measured, drawn, trials, by_speakers)


def _in_order(scores: Scores) -> Scores:
    """Return the trials sorted by name: the draws do not depend on the order of a file."""
    order = sorted(range(len(scores)), key=scores.ids.__getitem__)
    return scores.select(np.array(order, np.intp))


def _trials_key(scores: Scores) -> str:
    """Return what the same trials with the same labels have in common."""
    labels = hashlib.sha256(scores.labels.tobytes()).hexdigest()[:16]
    return f"{scores.digest()}-{labels}"


def _shared_draws(
    curves: Sequence[DetCurve],
    scores: Scores,
    speakers: Sequence[str] | None,
    replicates: int,
    rng: np.random.Generator,
    cost: DetectionCost,
) -> Floats:
    """Return the metrics of all curves, (curves, 2, replicates), each replicate on one draw."""
    blocks = list(map(into_blocks, curves))
    if speakers is None:
        draws = trial_draws(scores.labels, replicates, rng)
    else:
        draws = speaker_draws(scores.labels, speakers, replicates, rng)
    drawn = np.empty((len(curves), _METRICS, replicates))
    for number, weights in enumerate(draws):
        for index, of_curve in enumerate(blocks):
            drawn[index, :, number] = _metrics_of(of_curve, weights, cost)
    return drawn


def _metrics_of(blocks: Blocks, weights: Weights, cost: DetectionCost) -> Floats:
    """Return EER and minDCF, (2,), of one replicate with these weights of its trials."""
    sums = blocks.sums(weights.bona_fide, weights.spoof)
    metrics: Floats = weighted_metrics(sums.bona_fide[None], sums.spoof[None], cost)[:, 0]
    return metrics


def _draws_of_one(
    curve: DetCurve,
    scores: Scores,
    speakers: Sequence[str] | None,
    replicates: int,
    rng: np.random.Generator,
    cost: DetectionCost,
) -> Floats:
    """Return the metrics of a single curve, (1, 2, replicates)."""
    blocks = into_blocks(curve)
    if speakers is None:
        draws = block_draws(blocks, replicates, rng)
    else:
        draws = speaker_block_draws(blocks, scores.labels, speakers, replicates, rng)
    parts = [np.empty((_METRICS, 0))]
    for counts in draws:
        parts.append(weighted_metrics(counts.bona_fide, counts.spoof, cost))
    return np.concatenate(parts, axis=1)[None]
