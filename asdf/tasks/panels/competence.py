"""The competence of detectors on a control set: error rates, and a test against chance.

Invariant: a detector is competent only if the test, corrected for all detectors, shows that bona
fide recordings rank higher than spoofs by more than chance. The error rate alone does not make a
detector competent, because the best of many detectors may be lucky.

Recordings of one speaker resemble each other. If speakers are known, the test ranks one number per
speaker and class, the mean of the scores (Matthews, Altman, Campbell and Royston, "Analysis of
serial measurements in medical research", BMJ 300, 1990). Few speakers then give little evidence, as
they should.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats
from asdf.metrics.bootstrap import confidence_intervals
from asdf.metrics.detection import DetCurve
from asdf.metrics.intervals import Interval, holm
from asdf.metrics.score_checks import rank_test
from asdf.trials.score_file import Scores

LEVEL = 0.05
"""Probability of calling any detector competent if all are at chance level."""


@dataclass(frozen=True)
class Competence:
    """The performance of a detector on the control set.

    Attributes:
        eer: Equal error rate, as a fraction, with its 95 % interval.
        p_value: Probability that the best of as many detectors at chance level ranks the classes
            this well.
        is_member: Whether the detector is competent, and so a member of the panel.
        is_turned: Whether the detector ranks spoofs above bona fide recordings by more than chance.
    """

    name: str
    eer: Interval
    p_value: float
    is_member: bool
    is_turned: bool

    @property
    def verdict(self) -> str:
        """Conclusion in words."""
        if self.is_member:
            return "competent"
        if self.is_turned:
            return "inverted: excluded"
        return "not better than chance: excluded"


def measure_competence(
    systems: Sequence[Scores],
    names: Sequence[str],
    speakers: Sequence[str] | None = None,
    *,
    level: float = LEVEL,
    replicates: int = 1000,
    seed: int = 0,
) -> list[Competence]:
    """Return the competence of each detector, in their order.

    The test is that of Mann and Whitney, one-sided (`rank_test`), corrected by Holm's method for
    the number of detectors.

    Args:
        systems: Scores of the detectors, for the same trials in one order.
        speakers: Speaker of each trial; None: trials are independent.
        level: Level of the test.

    Raises:
        AsdfError: a class is empty.
    """
    p_values = []
    turned = []
    for system in systems:
        bona_fide, spoof = _independent(system, speakers)
        # `rank_test` asks for low ranks of its first class: of spoofs, for a competent detector.
        p_values.append(rank_test(DetCurve.of(spoof, bona_fide)))
        turned.append(rank_test(DetCurve.of(bona_fide, spoof)))
    known = []
    for name, system, p_value, p_turned in zip(
        names, systems, holm(p_values), holm(turned), strict=True
    ):
        intervals = confidence_intervals(
            system, speakers=speakers, replicates=replicates, seed=seed
        )
        is_member = p_value < level
        known.append(Competence(name, intervals.eer, p_value, is_member, p_turned < level))
    return known


def _independent(system: Scores, speakers: Sequence[str] | None) -> tuple[Floats, Floats]:
    """Return bona fide and spoof scores, averaged per speaker if speakers are known."""
    if speakers is None:
        return system.bona_fide, system.spoof
    means = []
    for label in (1, 0):
        of_speaker: dict[str, list[float]] = {}
        for speaker, trial_label, score in zip(
            speakers, system.labels, system.scores.tolist(), strict=True
        ):
            if trial_label == label:
                of_speaker.setdefault(speaker, []).append(score)
        means.append(np.array([np.mean(scores) for scores in of_speaker.values()]))
    bona_fide, spoof = means
    return bona_fide, spoof
