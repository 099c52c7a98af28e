"""Learning of calibrations for `calibrate` and `fuse`: method, map, bounds and intervals.

Invariant: methods are compared by the Cllr on held-out trials, with all trials of a speaker held
out together if speakers are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration, calibrate, with_support
from asdf.metrics.costs import DetectionCost
from asdf.metrics.detection import eer
from asdf.metrics.llr_maps import AUTO, METHODS
from asdf.tasks.fusion.gain import Folds, calibrated_cllr, make_folds
from asdf.trials.score_file import Scores

# Difference of Cllr in bits below which the simplest method is preferred.
_WORTH_IT = 0.005


@dataclass(frozen=True)
class CalibrationSet:
    """The scores that a calibration is learnt from.

    Attributes:
        name: Name of the set; None if unknown.
        speakers: Speaker of each trial; None if unknown.
        where: Description of the selected trials; None: all.
        chose_network: Whether the set also chose the network; None if unknown.
    """

    scores: Scores
    name: str | None = None
    speakers: Sequence[str] | None = None
    where: str | None = None
    chose_network: bool | None = None

    @property
    def folds_of(self) -> str:
        """Groups that are held out together: 'speakers' or 'trials'."""
        return "trials" if self.speakers is None else "speakers"

    @property
    def speaker_count(self) -> int | None:
        """Number of speakers; None if unknown."""
        return None if self.speakers is None else len(set(self.speakers))

    def speakers_by_class(self) -> tuple[list[str], list[str]] | None:
        """Return the speaker of each bona fide and each spoof trial; None if unknown."""
        if self.speakers is None:
            return None
        bona_fide: list[str] = []
        spoof: list[str] = []
        for speaker, label in zip(self.speakers, self.scores.labels, strict=True):
            group = bona_fide if label == 1 else spoof
            group.append(speaker)
        return bona_fide, spoof


@dataclass(frozen=True)
class Learnt:
    """A calibration with the Cllr by which its method was chosen.

    Attributes:
        cllrs: Cross-validated Cllr in bits by method; None for a method that cannot be fitted
            without some fold; empty if there are too few trials or speakers of a class.
    """

    calibration: Calibration
    cllrs: Mapping[str, float | None]


def learn_calibration(
    learnt_from: CalibrationSet, cost: DetectionCost | None = None, method: str = AUTO
) -> Learnt:
    """Learn a calibration with its bounds, its intervals, and a description of its set.

    Args:
        cost: Costs that determine the Bayes threshold; None: the threshold at the EER.
        method: Method of `llr_maps.METHODS`, or 'auto'.

    Raises:
        AsdfError: as `calibrate`.
    """
    scores = learnt_from.scores
    units = learnt_from.speaker_count
    # Cross-validated, for each method.
    cllrs: dict[str, float | None]
    try:
        folds: Folds = make_folds(scores.ids, scores.labels, learnt_from.speakers)
    except AsdfError:
        # Too few trials or speakers for folds: without any Cllr, the simplest method is used.
        cllrs = {}
    else:
        cllrs = {name: calibrated_cllr(scores, folds, name, units) for name in METHODS}
    if method == AUTO:
        method = _choose_method(cllrs)
    calibration = calibrate(scores.bona_fide, scores.spoof, cost, method, units)
    return Learnt(describe_set(calibration, learnt_from, cllrs.get(method)), cllrs)


def describe_set(
    calibration: Calibration, learnt_from: CalibrationSet, cross_validated: float | None
) -> Calibration:
    """Return a calibration with the facts about its set, and the support of its claims."""
    scores = learnt_from.scores
    supported = with_support(
        calibration, scores.bona_fide, scores.spoof, learnt_from.speakers_by_class()
    )
    return replace(
        supported,
        set=learnt_from.name,
        trials=scores.digest(),
        bona_fide=int(scores.bona_fide.size),
        spoof=int(scores.spoof.size),
        speakers=learnt_from.speaker_count,
        # In UTC, so that the day does not depend on the time zone of the machine.
        date=datetime.now(timezone.utc).date().isoformat(),
        eer=eer(scores.bona_fide, scores.spoof)[0],
        cross_validated_cllr=cross_validated,
        folds_of=learnt_from.folds_of,
        where=learnt_from.where,
        chose_network=learnt_from.chose_network,
    )


def _choose_method(cllrs: Mapping[str, float | None]) -> str:
    """Return the simplest method, or one that is sufficiently better than all simpler ones."""
    chosen = METHODS[0]
    lowest = cllrs.get(chosen)
    for method in METHODS[1:]:
        value = cllrs.get(method)
        if value is None:
            continue
        if lowest is None or value < lowest - _WORTH_IT:
            chosen = method
            lowest = value
    return chosen
