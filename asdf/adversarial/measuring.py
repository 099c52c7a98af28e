"""What attacks reach: error rates, and how many right decisions they turn.

Invariant: decisions before and after an attack are at one threshold, which was not fitted to
attacked speech. A success is a recording that was decided right as it is, and is decided wrong
after the attack; recordings that were decided wrong already are no success of anyone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.adversarial.conditions import Condition
from asdf.arrays import Flags, Floats
from asdf.metrics.bootstrap import Interval, confidence_intervals
from asdf.metrics.intervals import exact_bounds
from asdf.robustness import CLEAN, Drawing, Judging, Measured, measure_network
from asdf.trials.score_file import Scores


@dataclass(frozen=True)
class Success:
    """How many right decisions an attack turned.

    Attributes:
        turned: Number of recordings that are decided wrong after the attack.
        trials: Number of recordings that were decided right before.
    """

    turned: int
    trials: int

    @property
    def interval(self) -> Interval | None:
        """The share with its exact interval (Clopper and Pearson); None without trials."""
        if not self.trials:
            return None
        low, high = exact_bounds(self.turned, self.trials)
        return Interval(self.turned / self.trials, low, high)


@dataclass(frozen=True)
class Effect:
    """What an attack at a level reaches.

    Attributes:
        measured: Error rates with intervals, and their changes, where all recordings are attacked.
        eer_of_spoofs: EER where spoofs alone are attacked, and genuine speech is as it is.
        success: Turned decisions of all recordings.
        success_of_spoofs: Spoofs that are accepted now.
        success_of_bona_fide: Genuine recordings that are rejected now.
        snr_db: Median of the recordings' signal-to-noise ratios; infinite without an attack.
    """

    condition: Condition
    measured: Measured
    eer_of_spoofs: Interval
    success: Success
    success_of_spoofs: Success
    success_of_bona_fide: Success
    snr_db: float


def measure_attacks(
    conditions: Sequence[Condition],
    scores: Mapping[str, Scores],
    snrs_db: Mapping[str, Floats],
    judging: Judging,
    drawing: Drawing,
) -> list[Effect]:
    """Measure all conditions of a detector, in their order.

    Args:
        scores: Scores by the conditions' names, 'clean' among them, of the same trials in the same
            order.
        snrs_db: Signal-to-noise ratios of the same trials, (trials,) each.
    """
    clean = scores[CLEAN]
    was_right = _are_right(clean, judging)
    effects = []
    measured = measure_network("", scores, judging, drawing)
    of_names = {row.condition: row for row in measured}
    for condition in conditions:
        attacked = scores[condition.name]
        turned = was_right & ~_are_right(attacked, judging)
        of_spoofs = np.where(clean.labels == 1, clean.scores, attacked.scores)
        drawn = confidence_intervals(
            Scores.of(clean, of_spoofs),
            speakers=drawing.speakers,
            replicates=drawing.replicates,
            seed=drawing.seed,
        )
        effects.append(
            Effect(
                condition,
                of_names[condition.name],
                drawn.eer,
                _count(turned, was_right),
                _count(turned, was_right & (clean.labels == 0)),
                _count(turned, was_right & (clean.labels == 1)),
                float(np.median(snrs_db[condition.name])),
            )
        )
    return effects


def _are_right(scores: Scores, judging: Judging) -> Flags:
    flags: Flags = (scores.scores >= judging.threshold) == (scores.labels == 1)
    return flags


def _count(turned: Flags, among: Flags) -> Success:
    return Success(int((turned & among).sum()), int(among.sum()))
