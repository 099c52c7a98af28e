"""Execution of all conditions on a list: copies, scores of each detector, score files.

Invariant: an existing score file is of these copies and this detector, or is written again, so a
stopped study resumes. A trial that fails under one condition is left out of all of them, and listed
with the reason, which is stored next to the scores.

Effects of degradations on detectors: metrics at a fixed threshold, and paired differences.

Invariant: all conditions of a detector have the same trials, with the same draws in every
bootstrap, so that differences are measured on the same recordings. Nothing is fitted to degraded
speech: threshold and LLR map are the network's, or learnt from clean speech.

EER, minDCF, their intervals and tests are those of `asdf.metrics.bootstrap`, miss and false alarm
rates those of `asdf.metrics.decisions`. Cllr and differences of rates are means over trials of a
class; their replicates are weighted means on the draws of the same bootstrap.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.extras.robustness.degradations import Material
from asdf.extras.robustness.making import CLEAN, Condition, Maker
from asdf.metrics.bootstrap import (
    Interval,
    confidence_intervals,
    difference_interval,
    paired_test,
    speaker_draws,
    speakers_of_fewer_class,
    trial_draws,
)
from asdf.metrics.calibration import Calibration, calibrate, eer_threshold
from asdf.metrics.decisions import Threshold, decide
from asdf.metrics.intervals import holm
from asdf.metrics.summary import speakers_of
from asdf.runs.files import write_text
from asdf.runs.log import track
from asdf.runs.pool import worker_pool
from asdf.trials.how_scored import HowScored
from asdf.trials.score_file import Scores, missing_class, read_scores
from asdf.trials.scored_files import write_recorded
from asdf.trials.trial_list import TrialList

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector

METRICS = ("eer", "min_dcf", "cllr", "miss", "false_alarm")
"""The metrics of a condition; rates are fractions."""

CORRECTED = ("eer", "min_dcf")
"""The metrics whose changes are tested over all conditions together."""


@dataclass(frozen=True)
class Drawing:
    """Parameters of the bootstrap.

    Attributes:
        speakers: Speaker of each trial; None if unknown, and trials are drawn.
    """

    replicates: int = 1000
    speakers: Sequence[str] | None = None
    seed: int = 0


@dataclass(frozen=True)
class Judging:
    """The decision rule of a detector for all conditions.

    Attributes:
        threshold: Lowest score of a recording that is called bona fide.
        source: Source of the threshold, in words.
        calibration: Map of scores to likelihood ratios, learnt from clean speech; None if scores
            are likelihood ratios already, or no map can be learnt.
        has_llrs: Whether there are likelihood ratios.
        bounds: Lowest and highest likelihood ratio that the detector's calibration supports, by
            which scores are limited as claims, but not as decisions.
    """

    threshold: float
    source: str
    calibration: Calibration | None
    has_llrs: bool
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def llrs(self, scores: Scores) -> Floats:
        """Return the natural-log likelihood ratios of scores."""
        if self.calibration is not None:
            return self.calibration.llr(scores.scores)
        return scores.scores.clip(*self.bounds)


@dataclass(frozen=True)
class Measured:
    """The results of a detector under a condition, or its differences to another one there.

    Attributes:
        changes: Differences to clean speech on the same trials, or to the other detector; empty for
            clean speech.
        values: Metrics with their intervals, without Cllr if there are no likelihood ratios.
        other: The other detector; '' for the results of one.
        p_values: Corrected p-values of the changes of EER and minDCF, over all conditions of the
            detector, or all pairs and conditions (Holm).
    """

    network: str
    condition: str
    changes: Mapping[str, Interval]
    values: Mapping[str, Interval] = field(default_factory=dict)
    other: str = ""
    p_values: Mapping[str, float] = field(default_factory=dict)


def judging_of(
    clean: Scores, threshold: float | None, *, calibration: Calibration | None
) -> Judging:
    """Return the decision rule of a detector with these scores on clean speech.

    Args:
        threshold: Threshold of the detector itself; None: that of equal error rates on clean
            speech.
        calibration: Calibration of the detector, whose scores are likelihood ratios before they
            are limited; None if they are not likelihood ratios.
    """
    source = "the network's"
    if threshold is None:
        threshold = eer_threshold(clean.bona_fide, clean.spoof)
        source = "that of equal error rates on clean speech"
    if calibration is not None:
        return Judging(threshold, source, None, has_llrs=True, bounds=calibration.range)
    try:
        learnt = calibrate(clean.bona_fide, clean.spoof)
    except AsdfError:
        # Scores that do not increase with bona fide have no likelihood ratios.
        return Judging(threshold, source, None, has_llrs=False)
    return Judging(threshold, source, learnt, has_llrs=True)


def measure_network(
    network: str, scores: Mapping[str, Scores], judging: Judging, drawing: Drawing
) -> list[Measured]:
    """Measure a detector under all conditions.

    Args:
        scores: Scores by condition, including 'clean', of the same trials in the same order.
    """
    clean = scores[CLEAN]
    clean_means = _Means.of(clean, judging, drawing)
    threshold = Threshold(judging.threshold, judging.source)
    options: dict[str, Any] = {"replicates": drawing.replicates, "seed": drawing.seed}
    measured = []
    for condition, degraded in scores.items():
        means = _Means.of(degraded, judging, drawing)
        drawn = confidence_intervals(degraded, speakers=drawing.speakers, **options)
        values = {"eer": drawn.eer, "min_dcf": drawn.min_dcf}
        decisions = decide(degraded, threshold, speakers=drawing.speakers or (), **options)
        # Over speakers where they are known, like those of the other metrics.
        intervals = decisions.speaker_intervals or decisions.intervals
        for name, recall in (("miss", "recall_bona_fide"), ("false_alarm", "recall_spoof")):
            one = intervals[recall]
            # The complement of a rate has its bounds the other way round.
            values[name] = replace(one, value=1 - one.value, low=1 - one.high, high=1 - one.low)
        if judging.has_llrs:
            values["cllr"] = means.cllr()
        changes: dict[str, Interval] = {}
        if condition != CLEAN:
            changes = _tested(clean, degraded, drawing) | means.differences(clean_means)
        measured.append(Measured(network, condition, changes, values))
    return _corrected(measured)


def compare_networks(
    scores: Mapping[str, Mapping[str, Scores]], drawing: Drawing
) -> list[Measured]:
    """Compare each pair of detectors under each condition: the second less the first.

    Args:
        scores: Scores by network and condition.
    """
    compared = []
    for first, second in combinations(scores, 2):
        for condition, of_first in scores[first].items():
            tested = _tested(of_first, scores[second][condition], drawing)
            compared.append(Measured(second, condition, tested, other=first))
    return _corrected(compared)


def _tested(first: Scores, second: Scores, drawing: Drawing) -> dict[str, Interval]:
    tested = paired_test(
        first, second, speakers=drawing.speakers, replicates=drawing.replicates, seed=drawing.seed
    )
    return {"eer": tested.eer, "min_dcf": tested.min_dcf}


def _corrected(rows: Sequence[Measured]) -> list[Measured]:
    """Return rows with p-values: all are one family, each one more chance of a low p-value."""
    adjusted = {}
    for metric in CORRECTED:
        raw = [row.changes[metric].p_value for row in rows if row.changes]
        adjusted[metric] = iter(holm([p_value for p_value in raw if p_value is not None]))
    corrected = []
    for row in rows:
        of_metrics = adjusted.items() if row.changes else ()
        p_values = {metric: next(p_values) for metric, p_values in of_metrics}
        corrected.append(replace(row, p_values=p_values))
    return corrected


@dataclass(frozen=True)
class _Means:
    """Means over the trials of a class: of LLR costs, and of errors.

    Attributes:
        measured: Means on the trials themselves, (2 quantities, 2 classes); bona fide first.
        drawn: Means on the replicates, (2 quantities, 2 classes, replicates).
        groups: Number of drawn speakers; None if trials were drawn.
    """

    measured: Floats
    drawn: Floats
    groups: int | None
    has_llrs: bool

    @classmethod
    def of(cls, scores: Scores, judging: Judging, drawing: Drawing) -> _Means:
        """Compute the means of scores and draw replicates."""
        is_bona_fide = scores.labels == 1
        llrs = judging.llrs(scores)
        # log2(1 + exp(x)) without overflow for large LLRs.
        costs = np.logaddexp(0, np.where(is_bona_fide, -llrs, llrs)) / np.log(2)
        errors = (scores.scores >= judging.threshold) != is_bona_fide
        # (2 quantities, trials)
        values = np.stack([costs, errors.astype(np.float64)])
        of_classes = (values[:, is_bona_fide], values[:, ~is_bona_fide])
        # The same seed for each condition: equal draws make the differences paired.
        rng = np.random.default_rng(drawing.seed)
        groups = None
        if drawing.speakers is None:
            draws = trial_draws(scores.labels, drawing.replicates, rng)
        else:
            draws = speaker_draws(scores.labels, drawing.speakers, drawing.replicates, rng)
            groups = speakers_of_fewer_class(scores.labels, drawing.speakers)
        drawn = []
        for weights in draws:
            of_draw = []
            for part, times in zip(of_classes, (weights.bona_fide, weights.spoof), strict=True):
                # With speakers, the number of trials differs from draw to draw.
                of_draw.append(part @ times / times.sum())
            drawn.append(np.stack(of_draw, axis=1))  # (2 quantities, 2 classes)
        measured = np.stack([part.mean(axis=1) for part in of_classes], axis=1)
        return cls(measured, np.stack(drawn, axis=2), groups, judging.has_llrs)

    def cllr(self) -> Interval:
        """Return the Cllr in bits with its interval."""
        zero = np.zeros_like(self.drawn[0, 0])
        # A difference to zero, so that this interval is computed like those of changes.
        value = np.array([0.0, self.measured[0].mean()])
        drawn = np.stack([zero, self.drawn[0].mean(axis=0)])
        interval = difference_interval(value, drawn, groups=self.groups)
        # No Cllr is negative, and a test against zero would say nothing.
        return replace(interval, low=max(0.0, interval.low), p_value=None, groups=self.groups)

    def differences(self, clean: _Means) -> dict[str, Interval]:
        """Return the differences to clean speech of Cllr, miss and false alarm rate."""
        both = (clean, self)
        measured = np.stack([means.measured for means in both])
        drawn = np.stack([means.drawn for means in both])
        pairs = {"miss": (measured[:, 1, 0], drawn[:, 1, 0])}
        pairs["false_alarm"] = (measured[:, 1, 1], drawn[:, 1, 1])
        if self.has_llrs:
            pairs["cllr"] = (measured[:, 0].mean(axis=1), drawn[:, 0].mean(axis=1))
        return {
            metric: difference_interval(*pair, groups=self.groups) for metric, pair in pairs.items()
        }


@dataclass(frozen=True)
class Rival:
    """A detector with its name in results.

    Attributes:
        digest: SHA-256 of its file.
    """

    name: str
    detector: Detector
    digest: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a study.

    Attributes:
        folder: Folder of copies, score files and results.
        keeps_audio: Whether copies stay after they are scored.
        say: Function called with a sentence on what happens.
    """

    trials: TrialList
    conditions: Sequence[Condition]
    material: Material
    folder: Path
    seed: int = 0
    workers: int = 2
    replicates: int = 1000
    keeps_audio: bool = False
    say: Callable[[str], None] = lambda sentence: None


@dataclass
class Study:
    """The results of a study.

    Attributes:
        measured: Results of each detector under each condition, clean speech first.
        compared: Differences of each pair of detectors, the second less the first.
        judging: Threshold and map of each detector.
        left_out: Reasons why trials are in no result, by id.
        clipped: Number of copies with samples beyond full scale, which FLAC clips, by condition.
        by_speakers: Whether intervals are over speakers.
    """

    conditions: list[Condition]
    counts: tuple[int, int]
    measured: list[Measured]
    compared: list[Measured]
    judging: dict[str, Judging]
    by_speakers: bool
    left_out: dict[str, str] = field(default_factory=dict)
    clipped: dict[str, int] = field(default_factory=dict)


def run_study(plan: Plan, rivals: Sequence[Rival]) -> Study:
    """Make copies, score them and measure the effect of each condition on each detector.

    Raises:
        AsdfError: an output cannot be written, or too few trials of a class remain.
    """
    total = len(plan.trials)
    with worker_pool(plan.workers, plan.material) as compute:
        maker = Maker(plan.trials, plan.folder / "audio", plan.material, plan.seed, compute)
        for rival in rivals:
            _ScoreFile(plan, rival, CLEAN).write(maker.sources, maker.list_digest, 0, {})
        for number, condition in enumerate(plan.conditions, 1):
            plan.say(f"{number} of {len(plan.conditions)}: {condition.label}")
            digest = maker.digest(condition)
            files = [_ScoreFile(plan, rival, condition.name) for rival in rivals]
            if plan.keeps_audio or not all(file.is_of(digest) for file in files):
                clipped = 0
                problems: dict[str, str] = {}
                made = track(maker.make(condition), total, condition.name, unit="recordings")
                with closing(made) as tracked:
                    for index, samples, problem in tracked:
                        clipped += samples > 0
                        if problem:
                            problems[plan.trials.ids[index]] = problem
                for file in files:
                    file.write(maker.paths(condition), digest, clipped, problems)
            # A run that was stopped after scoring left its copies.
            if not plan.keeps_audio:
                maker.remove(condition)
    return measure_study(plan, rivals)


class _ScoreFile:
    """The scores of a detector under a condition, next to a record of what they were made of."""

    def __init__(self, plan: Plan, rival: Rival, condition: str) -> None:
        self.path = plan.folder / "scores" / rival.name / f"{condition}.txt"
        self._record = self.path.with_suffix(".made_of")
        self._trials = plan.trials
        self._detector = rival.detector
        self._network = rival.digest
        self._title = f"{condition}, {rival.name}"

    def record(self) -> dict[str, Any]:
        """Return the record; {} if there is none, or it is damaged."""
        try:
            record: dict[str, Any] = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return record

    def is_of(self, digest: str) -> bool:
        """Return whether the scores are those of copies with this digest."""
        return self.record().get("key") == self._key(digest)

    def _key(self, digest: str) -> str:
        """Digest everything that scores depend on."""
        detector = self._detector
        facts = [digest, self._network, detector.length, detector.precision, detector.engine]
        return hashlib.sha256(repr([*facts, detector.calibration is not None]).encode()).hexdigest()

    def write(
        self, paths: Sequence[Path], digest: str, clipped: int, problems: Mapping[str, str]
    ) -> None:
        """Score recordings, unless this is done, and write the score file."""
        if self.is_of(digest):
            return
        detector = self._detector
        scores = np.full(len(self._trials), np.nan)
        left_out: dict[str, str] = {}
        results = detector.score_many(paths)
        with closing(track(results, len(scores), self._title, unit="recordings")) as tracked:
            for result in tracked:
                if result.compared is None:
                    utterance = self._trials.ids[result.index]
                    # The network's error would only say that the copy is missing.
                    left_out[utterance] = problems.get(utterance, result.error)
                else:
                    scores[result.index] = result.compared
        known = np.flatnonzero(np.isfinite(scores))
        chosen = self._trials.select(known)
        # The record goes first and comes back last: it must never vouch for scores cut short.
        self._record.unlink(missing_ok=True)
        how = HowScored(detector.length, detector.precision, detector.engine)
        write_recorded(self.path, chosen.ids, chosen.labels.tolist(), scores[known], how)
        record = {"key": self._key(digest), "clipped": clipped, "left_out": left_out}
        write_text(self._record, json.dumps(record) + "\n")


def measure_study(plan: Plan, rivals: Sequence[Rival]) -> Study:
    """Measure the trials that all detectors scored under all conditions.

    Raises:
        AsdfError: a class is missing among them.
    """
    scores: dict[str, dict[str, Scores]] = {}
    clipped: dict[str, int] = {}
    problems: dict[str, str] = {}
    common = set(plan.trials.ids)
    # The first problem counts: clean speech comes before its copies.
    for condition in (CLEAN, *(condition.name for condition in plan.conditions)):
        for rival in rivals:
            file = _ScoreFile(plan, rival, condition)
            record = file.record()
            # All detectors hear the same copies.
            if record["clipped"]:
                clipped[condition] = record["clipped"]
            left_out = record["left_out"].items()
            problems |= {name: reason for name, reason in left_out if name not in problems}
            # Both classes are checked once, among the trials that remain.
            read = read_scores(file.path, both_classes=False)
            scores.setdefault(rival.name, {})[condition] = read
            common.intersection_update(read.ids)
    for utterance in plan.trials.ids:
        if utterance not in common:
            problems.setdefault(utterance, "it has no score under one of the conditions")
    for of_rival in scores.values():
        for condition, read in of_rival.items():
            # Score files keep the order of the list.
            is_common = [utterance in common for utterance in read.ids]
            of_rival[condition] = read.select(np.flatnonzero(is_common))
    first = scores[rivals[0].name][CLEAN]
    if missing := missing_class(first.labels):
        raise AsdfError(
            f"not one of the {len(first)} trials that could be scored is {missing}: error rates "
            "need both classes."
        )
    drawing = Drawing(plan.replicates, speakers_of(first, plan.trials))
    judging = {}
    measured = []
    for number, rival in enumerate(rivals, 1):
        plan.say(f"measuring {rival.name} ({number} of {len(rivals)})")
        of_rival = scores[rival.name]
        judging[rival.name] = judging_of(
            of_rival[CLEAN], rival.detector.threshold, calibration=rival.detector.calibration
        )
        measured += measure_network(rival.name, of_rival, judging[rival.name], drawing)
    return Study(
        conditions=list(plan.conditions),
        counts=(len(first.bona_fide), len(first.spoof)),
        measured=measured,
        compared=compare_networks(scores, drawing),
        judging=judging,
        by_speakers=drawing.speakers is not None,
        left_out=problems,
        clipped=clipped,
    )
