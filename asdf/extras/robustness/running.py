"""Execution of all conditions on a list: copies, scores of each detector, score files.

Invariant: an existing score file is of these copies and this detector, or is written again, so a
stopped study resumes. A trial that fails under one condition is left out of all of them, and listed
with the reason, which is stored next to the scores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.errors import AsdfError
from asdf.extras.robustness.conditions import CLEAN, Condition
from asdf.extras.robustness.degradations import Material
from asdf.extras.robustness.making import Maker
from asdf.extras.robustness.measuring import (
    Compared,
    Drawing,
    Judging,
    Measured,
    compare_networks,
    judging_of,
    measure_network,
)
from asdf.metrics.summary import speakers_of
from asdf.runs.files import write_text
from asdf.runs.log import track
from asdf.trials.how_scored import HowScored
from asdf.trials.score_file import Scores, missing_class, read_scores
from asdf.trials.scored_files import write_recorded
from asdf.trials.trial_list import TrialList

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector


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
        compared: Differences of each pair of detectors.
        judging: Threshold and map of each detector.
        left_out: Reasons why trials are in no result, by id.
        clipped: Number of copies with samples beyond full scale, which FLAC clips, by condition.
        by_speakers: Whether intervals are over speakers.
    """

    conditions: list[Condition]
    counts: tuple[int, int]
    measured: list[Measured]
    compared: list[Compared]
    judging: dict[str, Judging]
    by_speakers: bool
    left_out: dict[str, str] = field(default_factory=dict)
    clipped: dict[str, int] = field(default_factory=dict)


def run_study(plan: Plan, rivals: Sequence[Rival]) -> Study:
    """Make copies, score them and measure the effect of each condition on each detector.

    Raises:
        AsdfError: an output cannot be written, or too few trials of a class remain.
    """
    maker = Maker(plan.trials, plan.folder / "audio", plan.material, plan.seed, plan.workers)
    total = len(plan.trials)
    # Clean speech needs no copies and hence no processes.
    for rival in rivals:
        _score(plan, rival, CLEAN, maker.sources, maker.list_digest, 0, {})
    with maker.opened():
        for number, condition in enumerate(plan.conditions, 1):
            plan.say(f"{number} of {len(plan.conditions)}: {condition.label}")
            digest = maker.digest(condition)
            are_scored = all(_is_scored(plan, rival, condition.name, digest) for rival in rivals)
            if plan.keeps_audio or not are_scored:
                clipped = 0
                problems: dict[str, str] = {}
                made = track(maker.make(condition), total, condition.name, unit="recordings")
                with closing(made) as tracked:
                    for index, samples, problem in tracked:
                        clipped += samples > 0
                        if problem:
                            problems[plan.trials.ids[index]] = problem
                paths = maker.paths(condition)
                for rival in rivals:
                    _score(plan, rival, condition.name, paths, digest, clipped, problems)
            # A run that was stopped after scoring left its copies.
            if not plan.keeps_audio:
                maker.remove(condition)
    return _measure(plan, rivals)


def _score_path(plan: Plan, rival: Rival, condition: str) -> Path:
    return plan.folder / "scores" / rival.name / f"{condition}.txt"


def _record_path(plan: Plan, rival: Rival, condition: str) -> Path:
    """Return the path of the record of what a score file was made of."""
    return _score_path(plan, rival, condition).with_suffix(".made_of")


def _key(rival: Rival, digest: str) -> str:
    """Digest everything that scores depend on."""
    detector = rival.detector
    facts = [digest, rival.digest, detector.length, detector.precision, detector.engine]
    return hashlib.sha256(repr([*facts, detector.calibration is not None]).encode()).hexdigest()


def _read_record(plan: Plan, rival: Rival, condition: str) -> dict[str, Any]:
    try:
        record = json.loads(_record_path(plan, rival, condition).read_text(encoding="utf-8"))
    # A damaged record counts as none, so that its condition is scored again.
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _is_scored(plan: Plan, rival: Rival, condition: str, digest: str) -> bool:
    return _read_record(plan, rival, condition).get("key") == _key(rival, digest)


def _score(
    plan: Plan,
    rival: Rival,
    condition: str,
    paths: Sequence[Path],
    digest: str,
    clipped: int,
    problems: Mapping[str, str],
) -> None:
    """Score the recordings of a condition, unless this is done, and write the score file."""
    if _is_scored(plan, rival, condition, digest):
        return
    trials = plan.trials
    detector = rival.detector
    scores = np.full(len(trials), np.nan)
    left_out: dict[str, str] = {}
    title = f"{condition}, {rival.name}"
    scored = track(detector.score_many(paths), len(trials), title, unit="recordings")
    with closing(scored) as tracked:
        for result in tracked:
            if result.compared is None:
                utterance = trials.ids[result.index]
                # The network's error would only say that the copy is missing.
                left_out[utterance] = problems.get(utterance, result.error)
            else:
                scores[result.index] = result.compared
    known = np.flatnonzero(np.isfinite(scores))
    chosen = trials.select(known)
    path = _score_path(plan, rival, condition)
    # The record goes first and comes back last: it must never vouch for scores that were cut short.
    _record_path(plan, rival, condition).unlink(missing_ok=True)
    how = HowScored(detector.length, detector.precision, detector.engine)
    write_recorded(path, chosen.ids, chosen.labels.tolist(), scores[known], how)
    record = {"key": _key(rival, digest), "clipped": clipped, "left_out": left_out}
    write_text(_record_path(plan, rival, condition), json.dumps(record) + "\n")


def _measure(plan: Plan, rivals: Sequence[Rival]) -> Study:
    scores: dict[str, dict[str, Scores]] = {}
    clipped: dict[str, int] = {}
    problems: dict[str, str] = {}
    common = dict.fromkeys(plan.trials.ids)
    # The first problem counts: clean speech comes before its copies.
    for condition in (CLEAN, *(condition.name for condition in plan.conditions)):
        for rival in rivals:
            record = _read_record(plan, rival, condition)
            # All detectors hear the same copies.
            if record["clipped"]:
                clipped[condition] = record["clipped"]
            for utterance, reason in record["left_out"].items():
                problems.setdefault(utterance, reason)
            # Both classes are checked once, among the trials that remain.
            read = read_scores(_score_path(plan, rival, condition), both_classes=False)
            scores.setdefault(rival.name, {})[condition] = read
            known = set(read.ids)
            common = {utterance: None for utterance in common if utterance in known}
    for utterance in plan.trials.ids:
        if utterance not in common:
            problems.setdefault(utterance, "it has no score under one of the conditions")
    for of_rival in scores.values():
        for condition, read in of_rival.items():
            positions = {utterance: index for index, utterance in enumerate(read.ids)}
            # With a type, since an empty list would become an array of floats, which cannot index.
            indices = np.array([positions[utterance] for utterance in common], np.intp)
            of_rival[condition] = read.select(indices)
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
