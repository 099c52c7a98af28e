"""Effect of degradations on the results of a run's networks, next to its other results.

Invariant: the trials follow from the set and the seed; results of a stopped run are reused. A
single process measures, because the others would have nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asdf.recipe.run import Run
from asdf.robustness import (
    Material,
    Plan,
    Rival,
    choose_conditions,
    run_study,
    study_files,
)
from asdf.runs.files import write_text
from asdf.runs.log import LOG
from asdf.runs.seeds import generator
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION


def measure_robustness(run: Run, networks: Sequence[str]) -> None:
    """Measure the networks on degraded copies of the sets in `robustness.sets`; write results.

    Raises:
        AsdfError: a class is missing, a network's separate weights are missing, or an output cannot
            be written.
        UsageError: a degradation is unknown.
    """
    settings = run.settings.robustness
    if not settings.sets:
        return
    if run.world.size > 1:
        LOG.info(
            "robustness is measured by one process only: run the config again with one process and "
            "recipe.start_stage=3"
        )
        return
    for name in settings.sets:
        utterances, _ = run.evaluation_utterances(name)
        trials = draw_trials(utterances, settings.max_trials, run.settings.recipe.seed)
        _measure(run, networks, trials, run.evaluated_name(name))


def draw_trials(utterances: TrialList, count: int | None, seed: int) -> TrialList:
    """Return up to `count` trials in the order of the list, half of them from each class.

    If a class has fewer trials, the other class fills up the rest; None: all trials.
    """
    if count is None or count >= len(utterances):
        return utterances
    order = generator(seed, "robustness trials", utterances.name).permutation(len(utterances))
    labels = utterances.labels[order]
    bona_fide = order[labels == 1]
    spoof = order[labels == 0]
    # Half of them, or more if there are too few spoofs, or fewer.
    of_bona_fide = min(len(bona_fide), max(count // 2, count - len(spoof)))
    chosen = [bona_fide[:of_bona_fide], spoof[: count - of_bona_fide]]
    return utterances.select(np.sort(np.concatenate(chosen)))


def _measure(run: Run, networks: Sequence[str], trials: TrialList, name: str) -> None:
    settings = run.settings.robustness
    paths = tuple(str(trials.path(index)) for index in range(len(trials)))
    material = Material(paths)
    chosen = choose_conditions(material, settings.only)
    folder = run.folders.layout.robustness / name
    LOG.info(
        "robustness on %s: %d trials, %d conditions", name, len(trials), len(chosen.conditions)
    )
    plan = Plan(
        trials=trials,
        conditions=chosen.conditions,
        material=material,
        folder=folder,
        seed=run.settings.recipe.seed,
        workers=settings.workers,
        say=LOG.info,
    )
    rivals = [_open(run, network) for network in networks]
    study = run_study(plan, rivals)
    made_by = {"ASDF": VERSION, "config": run.config}
    for rival in rivals:
        made_by[f"SHA-256 of {rival.name}"] = rival.digest
    for file, content in study_files(study, chosen, made_by).items():
        write_text(folder / file, content)
    LOG.info("written to %s: report.html, results.*, scores/", folder)


def _open(run: Run, network: str) -> Rival:
    from asdf.scoring.detector import Detector
    from asdf.scoring.made_by import network_digest

    path = run.folders.networks / network
    weights = run.folders.weights(run.settings.front_end.weights)
    # Weights that are not in the file are read from where training read them.
    detector = Detector(path, run.world.device, run.recipe_folder, base=weights)
    return Rival(Path(network).stem, detector, network_digest(path))
