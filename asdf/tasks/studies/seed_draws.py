"""Bootstrap draws shared by the networks of one configuration, one network per seed.

Invariant: a draw depends only on the bootstrap's seed and the trials, so all networks that were
scored on the same trials are measured on the same draws, whatever else is compared and in whatever
order a score file is. Different sets are drawn independently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import BestPoint
from asdf.metrics.costs import ASVSPOOF5, DetectionCost, min_dcf_of
from asdf.metrics.detection import DetCurve, Weights, into_blocks
from asdf.metrics.intervals import Rates
from asdf.metrics.replicates import (
    block_draws,
    counts_of_draws,
    speaker_block_draws,
    speaker_draws,
    speakers_of_fewer_class,
    trial_draws,
    weighted_metrics,
)
from asdf.metrics.several_systems import speakers_of
from asdf.runs.seeds import generator
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

_METRICS = 2
"""Number of metrics along an axis: EER and minDCF, in this order."""
# Number of networks with which `Rates` does not limit the number of independent trials.
_MANY = 1_000
_DRAWN = 4
"""Number of drawn values: the metrics, then miss and false alarm rate at the best threshold."""


@dataclass(frozen=True, eq=False)
class SeedDraws:
    """EER and minDCF of a configuration's networks, one per seed, on a set and on draws of it.

    Attributes:
        seeds: Seed of each network, by name.
        measured: Metrics on the set, (seeds, 2).
        drawn: Metrics on the draws, (seeds, 2, replicates).
        trials: Key that draws of the same trials share.
        at_best: Rates at the best threshold of each network, averaged over seeds.
        groups: Number of drawn speakers, for the class with fewer; None if trials were drawn.
    """

    seeds: tuple[str, ...]
    measured: Floats
    drawn: Floats
    trials: str
    at_best: Rates
    groups: int | None = None

    @property
    def replicates(self) -> int:
        """The number of draws."""
        return int(self.drawn.shape[-1])

    @property
    def by_speakers(self) -> bool:
        """Whether whole speakers were drawn instead of trials."""
        return self.groups is not None


# Options with defaults are passed by keyword.
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
        scores: Scores of each seed's network.
        trials: Columns of the corpus for the trials; if all speakers are known, speakers are drawn.
        is_compared: Whether other networks on the same trials need the same draws; drawing for a
            single network that is not compared is much faster.

    Raises:
        AsdfError: the networks were not scored on the same trials; or as `confidence_intervals`.
    """
    ordered = []
    for part in scores:
        # The trials are sorted by name, so draws do not depend on the order of a file.
        order = sorted(range(len(part)), key=part.ids.__getitem__)
        ordered.append(part.select(np.array(order, np.intp)))
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
    # The generator depends on the trials: sets are drawn independently, in any order.
    rng = generator(seed, "trials", trials_key)
    # Draws of blocks work for a single network only, and are much faster than draws of trials.
    if is_compared or len(curves) > 1:
        drawn = _shared_draws(curves, first, speakers, replicates, rng, cost)
    else:
        drawn = _draws_of_one(curves[0], first, speakers, replicates, rng, cost)
    measured = np.array([(curve.eer()[0], min_dcf_of(curve, cost)) for curve in curves])
    groups = None if speakers is None else speakers_of_fewer_class(first.labels, speakers)
    at_best = _rates_at_best(curves, drawn[:, _METRICS:], cost)
    return SeedDraws(tuple(seeds), measured, drawn[:, :_METRICS], trials_key, at_best, groups)


def _rates_at_best(curves: Sequence[DetCurve], drawn: Floats, cost: DetectionCost) -> Rates:
    """Average the rates at the best threshold of each network.

    Args:
        drawn: Rates on the draws, (curves, 2, replicates).
    """
    points = [BestPoint.of(into_blocks(curve), cost) for curve in curves]
    return Rates(
        values=np.mean([point.rates for point in points], axis=0),
        weights=points[0].weights,
        trials=points[0].trials,
        drawn=drawn.mean(axis=0),
        networks=len(curves),
    )


def average_of_sets(sets: Sequence[SeedDraws]) -> SeedDraws:
    """Return the unweighted mean of the metrics over sets; the sets are drawn independently."""
    measured = np.mean([draws.measured for draws in sets], axis=0)  # (seeds, 2)
    drawn = np.mean([draws.drawn for draws in sets], axis=0)  # (seeds, 2, replicates)
    trials = " ".join(draws.trials for draws in sets)
    rates = [draws.at_best for draws in sets]
    at_best = Rates(
        values=np.mean([each.values for each in rates], axis=0),
        weights=rates[0].weights,
        # A mean of zero errors over sets is bounded as if all sets had as many trials as the
        # smallest.
        trials=len(sets) * np.min([each.trials for each in rates], axis=0),
        drawn=np.mean([each.drawn for each in rates if each.drawn is not None], axis=0),
        # Their mean varies as the draws do, whose number of independent trials is unknown.
        networks=_MANY * len(sets[0].seeds),
    )
    groups = [draws.groups for draws in sets if draws.groups is not None]
    return SeedDraws(
        sets[0].seeds, measured, drawn, trials, at_best, min(groups) if groups else None
    )


def _trials_key(scores: Scores) -> str:
    """Return a key that is equal for the same trials with the same labels."""
    # The digest of a list is of its ids alone.
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
    """Return the draws of all curves, (curves, 4, replicates), with shared replicates."""
    blocks = list(map(into_blocks, curves))
    points = [BestPoint.of(of_curve, cost) for of_curve in blocks]
    if speakers is None:
        draws = trial_draws(scores.labels, replicates, rng)
    else:
        draws = speaker_draws(scores.labels, speakers, replicates, rng)
    drawn = np.empty((len(curves), _DRAWN, replicates))  # metrics, then rates
    done = 0
    for of_curves in counts_of_draws(draws, blocks):
        for index, (counts, point) in enumerate(zip(of_curves, points, strict=True)):
            values = _drawn_of(counts, point, cost)
            drawn[index, :, done : done + values.shape[1]] = values
        done += values.shape[1]
    return drawn


def _drawn_of(counts: Weights, point: BestPoint, cost: DetectionCost) -> Floats:
    """Return metrics and rates at a point, (4, replicates), from the counts of each block."""
    metrics = weighted_metrics(counts.bona_fide, counts.spoof, cost)
    return np.concatenate([metrics, point.rates_of(counts)])


def _draws_of_one(
    curve: DetCurve,
    scores: Scores,
    speakers: Sequence[str] | None,
    replicates: int,
    rng: np.random.Generator,
    cost: DetectionCost,
) -> Floats:
    """Return the draws of a single curve, (1, 4, replicates)."""
    blocks = into_blocks(curve)
    point = BestPoint.of(blocks, cost)
    if speakers is None:
        draws = block_draws(blocks, replicates, rng)
    else:
        draws = speaker_block_draws(blocks, scores.labels, speakers, replicates, rng)
    # Without replicates there are no other parts.
    parts = [np.empty((_DRAWN, 0))]
    for counts in draws:
        parts.append(_drawn_of(counts, point, cost))
    return np.concatenate(parts, axis=1)[None]
