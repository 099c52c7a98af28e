"""Execution of all attacks on a list, with a score file each.

Invariant: an existing score file is of these recordings, this attack and these detectors, or is
written again, so a stopped study resumes and ends with the same numbers on any number of processes.
A trial that fails under one attack is left out of all of them, and listed. No recording is changed;
copies are written only to a folder that the user gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from asdf.adversarial.attacked_list import AttackedList, Rows
from asdf.adversarial.attacking import Attacker, ScoreSurface, attackable
from asdf.adversarial.attacks import Search
from asdf.adversarial.conditions import Condition, check_search
from asdf.adversarial.measuring import Effect, measure_attacks
from asdf.distributed.worker_processes import WorkerProcesses
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.several_systems import speakers_of
from asdf.robustness import (
    CLEAN,
    Drawing,
    Judging,
    Rival,
    judging_of,
    list_digest,
    score_path,
)
from asdf.runs.seeds import generator
from asdf.scoring.detector import Detector
from asdf.trials.how_scored import HowScored
from asdf.trials.score_file import Scores, missing_class
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION

# Increased when an attack changes, so that earlier results are computed again.
_VERSION = 1
_PROBE_LEVEL = 0.1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a study of attacks.

    Attributes:
        conditions: Attacks at their levels, see `choose_attacks`.
        folder: Folder of score files and results.
        keeps: Folder for attacked copies; None: they are not kept.
        is_whole: Whether scores are of whole recordings, over windows.
        workers: Number of processes, each with a copy of the network; 0: only this one.
        say: Function that is called with progress messages.
    """

    trials: TrialList
    conditions: Sequence[Condition]
    folder: Path
    keeps: Path | None = None
    search: Search = field(default_factory=Search)
    is_whole: bool = False
    seed: int = 0
    workers: int = 0
    replicates: int = 1000
    say: Callable[[str], None] = lambda sentence: None


@dataclass(frozen=True)
class Study:
    """The results of a study.

    Attributes:
        victim, surrogate: Names of the detectors; '' without a surrogate.
        counts: Numbers of bona fide trials and of spoofs.
        effects: Results of each condition, the unattacked one first.
        judging: Threshold and map of the detector.
        by_speakers: Whether intervals of error rates are over speakers.
        left_out: Reasons why trials are in no result, by id.
    """

    victim: str
    surrogate: str
    search: Search
    is_whole: bool
    counts: tuple[int, int]
    effects: Sequence[Effect]
    judging: Judging
    by_speakers: bool
    left_out: dict[str, str]


def run_attacks(plan: Plan, victim: Rival, surrogate: Rival | None = None) -> Study:
    """Attack all recordings of a list, and measure the effect of each attack.

    Args:
        surrogate: Detector on which transferred attacks are computed.

    Raises:
        AsdfError: the detector gives no gradients, an output cannot be written, or too few trials
            of a class remain.
        UsageError: the scores are fused by rank, or parameters of the search are not valid.
    """
    check_search(plan.search)
    copy = attackable(victim.detector)
    other = None if surrogate is None else attackable(surrogate.detector)
    attacker = Attacker(copy, other, plan.search, plan.seed, plan.is_whole)
    for detector in filter(None, (copy, other)):
        _probe(detector)
    conditions = [Condition(), *plan.conditions]
    digest = list_digest(plan.trials)
    # One at a time, because each takes seconds.
    processes = WorkerProcesses(plan.workers, attacker, chunk=1)
    rows = {}
    with processes.opened():
        for number, condition in enumerate(conditions):
            plan.say(f"{number} of {len(plan.conditions)}: {condition.label}")
            work = _work_of(plan, condition, attacker, digest, victim, surrogate)
            path = score_path(plan.folder, victim.name, condition.name)
            how = HowScored(copy.length, copy.precision, copy.engine)
            attacked = AttackedList(plan.trials, condition, path, plan.keeps, work, how)
            rows[condition.name] = attacked.attack(processes)
    return _measure(plan, victim, surrogate, rows)


def _probe(detector: Detector) -> None:
    """Refuse a network that detaches gradients, before any work.

    Raises:
        AsdfError: no gradient of the score reaches the samples.
    """
    rng = generator(0, "adversarial probe")
    noise = (_PROBE_LEVEL * rng.standard_normal(SAMPLE_RATE)).astype(np.float32)
    noise_T = torch.from_numpy(noise).to(detector.device)
    surface = ScoreSurface(detector, noise_T, is_whole=False, raises=True)
    _, gradient_T = surface.slope(noise_T)
    if not gradient_T.any():
        [*_, network] = detector.hearing.scorer.networks
        raise AsdfError(
            f"{type(network).__name__} has a zero gradient with respect to the samples (as "
            "rounding causes): gradient attacks would overstate its robustness. Attack a similar "
            "detector and transfer the attack: --transfer."
        )


def _work_of(
    plan: Plan,
    condition: Condition,
    attacker: Attacker,
    digest: str,
    victim: Rival,
    surrogate: Rival | None,
) -> dict[str, Any]:
    """Return everything that the results of a condition depend on, as plain values."""
    detector = attacker.victim
    work: dict[str, Any] = {
        "version": [_VERSION, VERSION, torch.__version__],
        "list": digest,
        "condition": condition.name,
        "network": victim.digest,
        "way of scoring": [*detector.length.record().values(), plan.is_whole, detector.device.type],
    }
    if condition.attack is not None:
        # Without an attack nothing is drawn.
        work["seed"] = plan.seed
        # Noise takes no steps: its results remain valid for another number of them.
        work["search"] = asdict(plan.search) if condition.attack.has_gradients else None
    if condition.is_transferred:
        assert surrogate is not None
        work["other network"] = surrogate.digest
    return work


def _measure(plan: Plan, victim: Rival, surrogate: Rival | None, rows: Mapping[str, Rows]) -> Study:
    problems: dict[str, str] = {}
    is_common = np.ones(len(plan.trials), bool)
    for of_condition in rows.values():
        is_common &= np.isfinite(of_condition.scores)
        for utterance, problem in zip(plan.trials.ids, of_condition.problems, strict=True):
            if problem:
                # The first problem counts: that without an attack, if there is one.
                problems.setdefault(utterance, problem)
    common = np.flatnonzero(is_common)
    trials = plan.trials.select(common)
    missing = missing_class(trials.labels)
    if missing:
        raise AsdfError(
            f"none of the {len(trials)} trials that could be attacked is {missing}: error rates "
            "need both classes."
        )
    scores = {}
    snrs_db = {}
    for name, of_condition in rows.items():
        scores[name] = Scores.of(trials, of_condition.scores[common])
        snrs_db[name] = of_condition.snrs_db[common]
    clean = scores[CLEAN]
    detector = victim.detector
    judging = judging_of(clean, detector.threshold, calibration=detector.calibration)
    drawing = Drawing(plan.replicates, speakers_of(clean, plan.trials))
    conditions = [Condition(), *plan.conditions]
    return Study(
        victim=victim.name,
        surrogate="" if surrogate is None else surrogate.name,
        search=plan.search,
        is_whole=plan.is_whole,
        counts=(len(clean.bona_fide), len(clean.spoof)),
        effects=measure_attacks(conditions, scores, snrs_db, judging, drawing),
        judging=judging,
        by_speakers=drawing.speakers is not None,
        left_out=problems,
    )
