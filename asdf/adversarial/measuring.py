"""Effects of attacks: error rates, and how many correct decisions they change.

Invariant: decisions before and after an attack use one threshold, which was not fitted to attacked
speech. A success is a recording that is decided correctly before the attack, and wrongly after it;
recordings that were decided wrongly before do not count.
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
    """The number of correct decisions that an attack changed.

    Attributes:
        turned: Number of recordings that are decided wrongly after the attack.
        trials: Number of recordings that were decided correctly before.
    """

    turned: int
    trials: int

    @property
    def interval(self) -> Interval | None:
        """The success rate with its exact interval (Clopper and Pearson); None without trials."""
        if not self.trials:
            return None
        low, high = exact_bounds(self.turned, self.trials)
        return Interval(self.turned / self.trials, low, high)


@dataclass(frozen=True)
class Effect:
    """The effect of an attack at a level.

    Attributes:
        measured: Error rates with intervals, and their changes, if all recordings are attacked.
        eer_of_spoofs: EER if only spoofs are attacked.
        success: Changed decisions of all recordings.
        success_of_spoofs: Spoofs that are accepted after the attack.
        success_of_bona_fide: Genuine recordings that are rejected after the attack.
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
        scores: Scores by condition name, including 'clean', of the same trials in the same order.
        snrs_db: Signal-to-noise ratios of the same trials, (trials,) each.
    """
    clean = scores[CLEAN]
    was_right = _are_right(clean, judging)
    effects = []
    # Without a name, since a study attacks a single detector.
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
                # An unchanged recording has an infinite ratio, which would be the mean as well.
                float(np.median(snrs_db[condition.name])),
            )
        )
    return effects


def _are_right(scores: Scores, judging: Judging) -> Flags:
    flags: Flags = (scores.scores >= judging.threshold) == (scores.labels == 1)
    return flags


def _count(turned: Flags, among: Flags) -> Success:
    return Success(int((turned & among).sum()), int(among.sum()))
