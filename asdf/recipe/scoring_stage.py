"""Stages 2 and 3, and validation: whole sets are scored, and the results are reported.

Invariant: the main rank computes a set's result from the scores in its file, and sends it to the
other ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from asdf.errors import AsdfError
from asdf.interchange import digest_in_memory
from asdf.metrics.detection import eer
from asdf.metrics.results import MetricValue, Row, evaluate, results_table, write_results
from asdf.metrics.validation import ChosenMetric
from asdf.networks.attached import Extra
from asdf.recipe.run import Run
from asdf.recipe.starts import mark_evaluations
from asdf.report import gather, report_page
from asdf.runs.evaluations import ChosenBy, ValidationResult, describe_stale, read_evaluations
from asdf.runs.files import write_text
from asdf.runs.layout import NetworkName
from asdf.runs.log import LOG
from asdf.scoring.score_list import ScoredList, build_list_scorer, score_with_extras
from asdf.scoring.whose_scores import replaced_network
from asdf.tasks.studies.generalisation import generalisation_json, generalisation_text
from asdf.training.objective import LossOnTrials
from asdf.training.task import ScoredSet, Tasks, find_tasks
from asdf.trials.how_scored import HowScored, in_precision
from asdf.trials.run_folder import open_run_folder
from asdf.trials.score_file import Scores, missing_class, read_scores
from asdf.trials.scored_files import how_scored, training_words, write_recorded
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList


def score_validation_sets(
    run: Run, network: nn.Module, name: str, loss: LossOnTrials | None = None
) -> ValidationResult | None:
    """Score the validation sets with a network, and compute the selection metric.

    Args:
        loss: Loss of training, whose means are computed too; None: no loss.

    Returns:
        Results on the validation sets; None if there are none.
    """
    if not run.validation_sets:
        return None
    metric = ChosenMetric(run.settings, run.recipe_folder)
    measured = list(map(run.validation_utterances, run.validation_sets))
    chosen_by = None if metric.is_eer else metric
    result = score_lists(run, network, name, measured, chosen_by, loss)
    run.end_scoring()
    recordings = {}
    for utterances, _ in measured:
        recordings[utterances.name] = run.describe_recordings(utterances)["recordings"]
    return replace(result, recordings=recordings)


def score_lists(
    run: Run,
    network: nn.Module,
    name: str,
    measured: Iterable[tuple[TrialList, np.ndarray]],
    metric: ChosenMetric | None = None,
    loss: LossOnTrials | None = None,
) -> ValidationResult:
    """Score lists with the lengths of their utterances; return the EERs by list name.

    Partial results are saved next to the score files until `run.end_scoring()`, so that neither a
    stopped list nor the long ones before it are scored again.

    Args:
        metric: Selection metric that is computed too; None: only the EER.
        loss: Loss of training, whose means are computed too; None: no loss.
    """
    scorer = build_list_scorer(network, run.settings, run.world, loss)
    # This takes seconds for gigabytes of weights, so it is done once, on the rank that writes it.
    digest = run.world.run_on_main(partial(digest_in_memory, network, run.settings))
    scored = replace(scorer.how_scored, network=digest)
    # All extras over time of the network; only commands request an embedding.
    wanted = [key for key, extra in scorer.extras.items() if extra.hop is not None]
    tasks = find_tasks(run.settings, run.recipe_folder)
    eers, values, losses = {}, {}, {}
    for utterances, lengths in measured:
        corpus = utterances.name
        path = run.folders.scores(name, corpus)
        run.scored.append(path)
        scores = score_with_extras(
            scorer, utterances, lengths, run.settings, run.world, run.stop, wanted, path
        )
        how = replace(scored, recordings=run.describe_recordings(utterances))
        result = run.world.run_on_main(
            partial(_write_scores, run, path, utterances, scores, how, tasks, scorer.extras, metric)
        )
        mean = run.world.run_on_main(partial(_mean_loss, loss, scores, utterances))
        eers[corpus] = result.eer
        shown = f"EER {100 * result.eer:.3f} %"
        if math.isnan(result.eer):
            shown = "no EER, as all trials are of one class"
        if metric is not None:
            values[corpus] = result.value
            shown += f", {metric.name} {result.value:.4f}"
        if mean is not None:
            losses[corpus] = mean
            shown += f", loss {mean:.4f}"
        shown += in_precision(scored.precision) + result.words
        LOG.info("%s on %s: %s", NetworkName.parse(name), corpus, shown)
    chosen_by = None
    if metric is not None:
        chosen_by = ChosenBy(metric.name, values, metric.lower_is_better)
    return ValidationResult(eers, chosen_by, losses=losses)


class _SetResult(NamedTuple):
    """The EER on a set, the value of the selection metric, and further results in words."""

    eer: float
    value: float
    words: str


def _write_scores(
    run: Run,
    path: Path,
    utterances: TrialList,
    computed: ScoredList | None,
    scored: HowScored,
    tasks: Tasks,
    extras: Mapping[str, Extra],
    metric: ChosenMetric | None,
) -> _SetResult:
    """Write the score file and related files on the main rank; return the results on the set."""
    assert computed is not None  # the main rank has them
    scores = computed.scores
    tasks.remove(path)
    write_recorded(path, utterances.ids, utterances.labels, scores, scored)
    if utterances.columns:
        write_trials(run.folders.trials(utterances.name), utterances)
    bona_fide = scores[utterances.labels == 1]
    spoof = scores[utterances.labels == 0]
    of_tasks = tasks.write(path, utterances, {**computed.extras, **computed.over_time}, extras)
    # A task may also score lists of one class.
    is_whole = not tasks.allow_one_class(of_tasks) or (len(bona_fide) and len(spoof))
    rate = value = eer(bona_fide, spoof)[0] if is_whole else math.nan
    if metric is not None:
        value = metric.of_set(bona_fide, spoof, of_tasks, utterances.name)
    return _SetResult(rate, value, tasks.describe(of_tasks) + training_words(path))


def _mean_loss(
    loss: LossOnTrials | None, computed: ScoredList | None, utterances: TrialList
) -> float | None:
    """Return the mean of the loss on a list, on the main rank; None if unknown."""
    if loss is None or computed is None or computed.losses is None:
        return None
    mean = loss.mean(computed.losses, utterances.labels)
    return mean if math.isfinite(mean) else None


def value_of(
    metric: ChosenMetric, scores: Scores, corpus: str, of_tasks: Mapping[str, Any]
) -> MetricValue | None:
    """Return the value of the selection metric on a set; None for the EER.

    Args:
        of_tasks: Scores of the tasks, by their keys.

    The result is also None if the metric fails, as a user's own metric may on a set that is not
    used for selection; a warning is logged, and the other results of the set are kept.
    """
    # A frame metric is in the results of localisation.
    if metric.is_eer or metric.task == "frames":
        return None
    try:
        value = metric.of_set(scores.bona_fide, scores.spoof, of_tasks, corpus)
    except AsdfError as error:
        LOG.warning("warning: %s", error)
        return None
    return MetricValue(metric.name, value, metric.lower_is_better)


def evaluate_sets(run: Run, network: nn.Module, name: str, sets: Iterable[str]) -> dict[str, float]:
    """Score `sets` with a network, write the score files and return the EERs, on every rank."""
    measured = list(map(run.evaluation_utterances, sets))
    eers = score_lists(run, network, name, measured).eers
    mark_evaluations(run, [utterances for utterances, _ in measured])
    for corpus, rate in eers.items():
        path = run.folders.scores(name, corpus)
        record = {"network": name, "set": corpus, "eer": rate, "path": path}
        run.callbacks().call("on_scores", record)
    return eers


def report(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Compute the metrics of the score files; log them, and write tables and a page."""
    networks = list(networks)
    sets = list(map(run.evaluated_name, sets))
    rows = []
    metric = ChosenMetric(run.settings, run.recipe_folder)
    tasks = find_tasks(run.settings, run.recipe_folder)
    for network in networks:
        for corpus in sets:
            row = _result_row(run, network, corpus, metric, tasks)
            if row is not None:
                rows.append(row)
    LOG.info("%s", results_table(rows))
    for sentence in describe_stale(read_evaluations(run.folders.layout)):
        LOG.warning("warning: %s", sentence)
    scored: list[ScoredSet] = []
    validated: list[ScoredSet] = []
    for network in networks:
        name = str(NetworkName.parse(network))
        for taken, names in ((scored, sets), (validated, run.validation_sets)):
            for corpus in names:
                paths = run.folders.scores(network, corpus), run.folders.trials(corpus)
                taken.append(ScoredSet(name, corpus, *paths))
    for text in tasks.report(scored, validated, run.folders.results):
        LOG.info("%s", text)
    records = write_results(run.folders.results, rows)
    # The page shows the rows just written, which are the run's last report.
    layout = run.folders.layout
    gathered = gather([open_run_folder(layout.system)])
    write_text(layout.report, report_page(gathered))
    known = gathered.generalisation
    if known is not None:
        LOG.info("generalisation\n%s", generalisation_text(known))
        write_text(layout.generalisation_text, generalisation_text(known))
        write_text(layout.generalisation_json, generalisation_json(known))
    # The other ranks wait.
    run.callbacks().call_alone("on_results", records)
    LOG.info("written to %s; report.html there shows them with curves and settings", layout.results)


def _result_row(
    run: Run, network: str, corpus: str, metric: ChosenMetric, tasks: Tasks
) -> Row | None:
    """Return the results of a network on a set; None if all trials are of one class.

    They are computed from the score file, because stage 3 may run on another day.

    Raises:
        AsdfError: there is no score file.
    """
    path = run.folders.scores(network, corpus)
    if not path.exists():
        raise AsdfError(f"there is no score file {path}: run stage 2 first (recipe.start_stage=2).")
    of_tasks = tasks.read(path)
    scores = read_scores(path, both_classes=not tasks.allow_one_class(of_tasks))
    if missing_class(scores.labels):
        LOG.info("%s has trials of one class only: %s are reported", corpus, ", ".join(of_tasks))
        return None
    for remark in filter(None, (replaced_network(path.absolute()), run.changed_since(path))):
        LOG.warning("warning: %s", remark)
    return Row(
        epoch=str(NetworkName.parse(network)),
        set=corpus,
        result=evaluate(scores),
        scored=how_scored(path),
        chosen_by=value_of(metric, scores, corpus, of_tasks),
    )
