"""Execution of all conditions on a list: copies, scores of each detector, score files.

Invariant: an existing score file is of these copies and this detector, or is written again, so a
stopped study resumes. A trial that fails under one condition is left out of all of them, and listed
with the reason, which is stored next to the scores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

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
from asdf.metrics.several_systems import speakers_of
from asdf.runs.files import write_text
from asdf.runs.progress import track
from asdf.trials.how_scored import HowScored
from asdf.trials.score_file import Scores, missing_class, read_scores, write_scores
from asdf.trials.scored_files import remove_how_scored, write_how_scored
from asdf.trials.trial_list import TrialList

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector

AUDIO = "audio"
SCORES = "scores"


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
    _score_conditions(plan, rivals)
    return _measure(plan, rivals)


def _score_conditions(plan: Plan, rivals: Sequence[Rival]) -> None:
    """Make copies and score them, unless this is done."""
    maker = Maker(plan.trials, plan.folder / AUDIO, plan.material, plan.seed, plan.workers)
    sources = []
    for index in range(len(plan.trials)):
        sources.append(plan.trials.path(index))
    # Clean speech needs no copies and hence no processes.
    for rival in rivals:
        _score(plan, rival, CLEAN, sources, maker.list_digest, _Copies())
    with maker.opened():
        for number, condition in enumerate(plan.conditions, 1):
            plan.say(f"{number} of {len(plan.conditions)}: {condition.label}")
            digest = maker.digest(condition)
            are_scored = all(_is_scored(plan, rival, condition.name, digest) for rival in rivals)
            # A run that was stopped after scoring left its copies.
            if are_scored and not plan.keeps_audio:
                maker.remove(condition)
                continue
            copies = _make_copies(plan, maker, condition)
            paths = maker.paths(condition)
            for rival in rivals:
                _score(plan, rival, condition.name, paths, digest, copies)
            if not plan.keeps_audio:
                maker.remove(condition)


@dataclass
class _Copies:
    """The outcome of making the copies of a condition.

    Attributes:
        clipped: Number of copies that have clipped samples.
        problems: Reasons for missing copies of trials, by id.
    """

    clipped: int = 0
    problems: dict[str, str] = field(default_factory=dict)


def _make_copies(plan: Plan, maker: Maker, condition: Condition) -> _Copies:
    """Make the copies of a condition."""
    copies = _Copies()
    made = maker.make(condition)
    with closing(track(made, len(plan.trials), condition.name, unit="recordings")) as tracked:
        for index, samples, problem in tracked:
            copies.clipped += samples > 0
            if problem:
                copies.problems[plan.trials.ids[index]] = problem
    return copies


def score_path(folder: Path, network: str, condition: str) -> Path:
    """Return the path of the score file of a detector under a condition."""
    return folder / SCORES / network / f"{condition}.txt"


def _key_path(plan: Plan, rival: Rival, condition: str) -> Path:
    return score_path(plan.folder, rival.name, condition).with_suffix(".made_of")


def _key(rival: Rival, digest: str) -> str:
    detector = rival.detector
    facts = [digest, rival.digest, detector.length, detector.precision, detector.engine]
    if detector.calibration is not None:
        # Earlier versions wrote limited ratios, which must not be mixed with these.
        facts.append("ratios before their limits")
    return hashlib.sha256(repr(tuple(facts)).encode()).hexdigest()


def _is_scored(plan: Plan, rival: Rival, condition: str, digest: str) -> bool:
    path = _key_path(plan, rival, condition)
    return path.is_file() and _read_key(path).digest == _key(rival, digest)


@dataclass(frozen=True)
class _Key:
    """The facts about a score file.

    Attributes:
        digest: Digest of everything that the scores depend on.
        clipped: Number of copies that have clipped samples.
        left_out: Reasons for missing scores of trials, by id.
    """

    digest: str = ""
    clipped: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


def _read_key(path: Path) -> _Key:
    first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    words = first.split()
    left_out = {}
    # A damaged key counts as none, so that its condition is scored again.
    with suppress(ValueError):
        left_out = json.loads(rest or "{}")
    if len(words) != 2 or not words[1].isdecimal() or not isinstance(left_out, dict):
        return _Key()
    return _Key(words[0], int(words[1]), left_out)


def _score(
    plan: Plan,
    rival: Rival,
    condition: str,
    paths: Sequence[Path],
    digest: str,
    copies: _Copies,
) -> None:
    """Score the recordings of a condition, unless this is done, and write the score file."""
    if _is_scored(plan, rival, condition, digest):
        return
    trials = plan.trials
    scores = np.full(len(trials), np.nan)
    left_out: dict[str, str] = {}
    scored = rival.detector.score_many(paths)
    title = f"{condition}, {rival.name}"
    with closing(track(scored, len(trials), title, unit="recordings")) as tracked:
        for result in tracked:
            if result.compared is None:
                utterance = trials.ids[result.index]
                # The network's error would only say that the copy is missing.
                left_out[utterance] = copies.problems.get(utterance, result.error)
            else:
                scores[result.index] = result.compared
    known = np.flatnonzero(np.isfinite(scores))
    path = score_path(plan.folder, rival.name, condition)
    key = _key_path(plan, rival, condition)
    # The key goes first and comes back last: it must never vouch for scores that were cut short.
    key.unlink(missing_ok=True)
    remove_how_scored(path)
    chosen = trials.select(known)
    ids = chosen.ids
    write_scores(path, ids, chosen.labels.tolist(), scores[known])
    detector = rival.detector
    how = HowScored(detector.length, detector.precision, detector.engine, trials=len(ids))
    write_how_scored(path, how)
    reasons = json.dumps(left_out) + "\n" if left_out else ""
    write_text(key, f"{_key(rival, digest)} {copies.clipped}\n{reasons}")


def _measure(plan: Plan, rivals: Sequence[Rival]) -> Study:
    names = [CLEAN]
    for condition in plan.conditions:
        names.append(condition.name)
    clipped, problems = _read_keys(plan, rivals, names)
    scores = _read_common(plan, rivals, names, problems)
    first = scores[rivals[0].name][CLEAN]
    missing = missing_class(first.labels)
    if missing:
        raise AsdfError(
            f"not one of the {len(first)} trials that could be scored is {missing}: error rates "
            "need both classes."
        )
    drawing = Drawing(plan.replicates, speakers_of(first, plan.trials))
    judging = {}
    measured = []
    for number, rival in enumerate(rivals, 1):
        plan.say(f"measuring {rival.name} ({number} of {len(rivals)})")
        detector = rival.detector
        of_rival = scores[rival.name]
        judging[rival.name] = judging_of(
            of_rival[CLEAN], detector.threshold, calibration=detector.calibration
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


def _read_keys(
    plan: Plan, rivals: Sequence[Rival], names: Sequence[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the number of clipped copies by condition, and reasons for missing scores by id."""
    problems: dict[str, str] = {}
    clipped = {}
    for name in names:
        keys = [_read_key(_key_path(plan, rival, name)) for rival in rivals]
        # All detectors hear the same copies.
        if keys[0].clipped:
            clipped[name] = keys[0].clipped
        for key in keys:
            for utterance, reason in key.left_out.items():
                # The first problem counts: clean speech comes before its copies.
                problems.setdefault(utterance, reason)
    return clipped, problems


def _read_common(
    plan: Plan,
    rivals: Sequence[Rival],
    names: Sequence[str],
    problems: dict[str, str],
) -> dict[str, dict[str, Scores]]:
    """Read the scores by detector and condition, for the trials that have a score everywhere."""
    read: dict[str, dict[str, Scores]] = {}
    for rival in rivals:
        of_rival = {}
        for name in names:
            path = score_path(plan.folder, rival.name, name)
            # Both classes are checked once, among the trials that remain.
            of_rival[name] = read_scores(path, both_classes=False)
        read[rival.name] = of_rival
    common = _common_trials(plan.trials, read)
    for utterance in plan.trials.ids:
        if utterance not in common:
            problems.setdefault(utterance, "it has no score under one of the conditions")
    scores = {}
    for network, by_name in read.items():
        scores[network] = _of(common, by_name)
    return scores


def _common_trials(trials: TrialList, read: Mapping[str, Mapping[str, Scores]]) -> dict[str, int]:
    """Return the trials with a score everywhere, in the order of the list."""
    common = set(trials.ids)
    for by_name in read.values():
        for scores in by_name.values():
            common &= set(scores.ids)
    positions = {}
    for index, utterance in enumerate(trials.ids):
        if utterance in common:
            positions[utterance] = index
    return positions


def _of(common: Mapping[str, int], by_name: Mapping[str, Scores]) -> dict[str, Scores]:
    """Return the scores of only the common trials, in one order."""
    chosen = {}
    for name, scores in by_name.items():
        positions = dict(zip(scores.ids, range(len(scores)), strict=True))
        # With a type, since an empty list would become an array of floats, which cannot index.
        indices = np.array(list(map(positions.__getitem__, common)), np.intp)
        chosen[name] = scores.select(indices)
    return chosen


def seconds_of(trials: TrialList) -> float:
    """Return how many seconds the recordings of a list have, as their headers state it."""
    return sum(map(_seconds_of_one, map(trials.path, range(len(trials)))))


def _seconds_of_one(path: Path) -> float:
    from asdf.audio import audio_length
    from asdf.facts import SAMPLE_RATE

    try:
        return audio_length(path) / SAMPLE_RATE
    except AsdfError:
        # The problem is reported where the file is read.
        return 0.0
