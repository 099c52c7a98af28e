"""Stages 2 and 3, and validation: whole sets are scored, and the results are reported.

Invariant: the main rank computes a set's result from the scores in its file, and sends it to the
other ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from asdf.errors import AsdfError
from asdf.interchange import digest_in_memory
from asdf.metrics.detection import eer
from asdf.metrics.results import MetricValue, Row, evaluate, results_table, write_results
from asdf.metrics.validation import ChosenMetric
from asdf.networks.extras import Extra
from asdf.recipe.left_out import evaluated_name
from asdf.recipe.lists import RunLists
from asdf.recipe.run import Run
from asdf.recipe.starts import mark_evaluations
from asdf.report import gather, report_page
from asdf.runs.evaluations import ChosenBy, ValidationResult, describe_stale, read_evaluations
from asdf.runs.files import write_text
from asdf.runs.layout import NetworkName
from asdf.runs.log import LOG
from asdf.scoring.network_check import replaced_network
from asdf.scoring.score_list import ScoredList, build_list_scorer, score_with_extras
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
    measured = run.lists.validated()
    if not measured:
        return None
    metric = ChosenMetric(run.settings, run.folders.recipe)
    result = score_lists(run, network, name, measured, None if metric.is_eer else metric, loss)
    run.end_scoring()
    recordings = {one.name: run.lists.digests(one)["recordings"] for one, _ in measured}
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
    tasks = find_tasks(run.settings, run.folders.recipe)
    writer = _SetWriter(
        replace(scorer.how_scored, network=digest), tasks, scorer.extras, metric, loss
    )
    # All extras over time of the network; only commands request an embedding.
    wanted = [key for key, extra in scorer.extras.items() if extra.hop is not None]
    eers, values, losses = {}, {}, {}
    for utterances, lengths in measured:
        corpus = utterances.name
        path = run.folders.layout.score_file(NetworkName.parse(name), corpus)
        run.scored.append(path)
        scores = score_with_extras(
            scorer, utterances, lengths, run.settings, run.world, run.stop, wanted, path
        )
        paths = path, run.folders.layout.trials_file(corpus)
        digests = run.lists.digests(utterances)
        result = run.world.run_on_main(partial(writer.write, paths, utterances, scores, digests))
        eers[corpus] = result.eer
        shown = f"EER {100 * result.eer:.3f} %"
        if math.isnan(result.eer):
            shown = "no EER, as all trials are of one class"
        if metric is not None:
            values[corpus] = result.value
            shown += f", {metric.name} {result.value:.4f}"
        if result.loss is not None:
            losses[corpus] = result.loss
            shown += f", loss {result.loss:.4f}"
        shown += in_precision(scorer.how_scored.precision) + result.words
        LOG.info("%s on %s: %s", NetworkName.parse(name), corpus, shown)
    chosen_by = None
    if metric is not None:
        chosen_by = ChosenBy(metric.name, values, metric.lower_is_better)
    return ValidationResult(eers, chosen_by, losses=losses)


class _SetResult(NamedTuple):
    """The EER on a set, the values of the selection metric and the loss, and further results in
    words.
    """

    eer: float
    value: float
    loss: float | None
    words: str


@dataclass(frozen=True)
class _SetWriter:
    """Writes the score files of sets on the main rank, and computes their results."""

    scored: HowScored
    tasks: Tasks
    extras: Mapping[str, Extra]
    metric: ChosenMetric | None
    loss: LossOnTrials | None

    def write(
        self,
        paths: tuple[Path, Path],
        utterances: TrialList,
        computed: ScoredList | None,
        recordings: dict[str, str],
    ) -> _SetResult:
        """Write the files of scores and trials of a set, and related ones."""
        assert computed is not None  # the main rank has them
        path, trials = paths
        scores = computed.scores
        labels = utterances.labels
        self.tasks.remove(path)
        scored = replace(self.scored, recordings=recordings)
        write_recorded(path, utterances.ids, labels, scores, scored)
        if utterances.columns:
            write_trials(trials, utterances)
        bona_fide, spoof = scores[labels == 1], scores[labels == 0]
        extras = {**computed.extras, **computed.over_time}
        of_tasks = self.tasks.write(path, utterances, extras, self.extras)
        # A task may also score lists of one class.
        is_whole = not self.tasks.allow_one_class(of_tasks) or (len(bona_fide) and len(spoof))
        rate = value = eer(bona_fide, spoof)[0] if is_whole else math.nan
        if self.metric is not None:
            value = self.metric.of_set(bona_fide, spoof, of_tasks, utterances.name)
        mean = None
        if self.loss is not None and computed.losses is not None:
            mean = self.loss.mean(computed.losses, labels)
        known_mean = mean if mean is not None and math.isfinite(mean) else None
        words = self.tasks.describe(of_tasks) + training_words(path)
        return _SetResult(rate, value, known_mean, words)


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
    measured = list(map(run.lists.evaluation, sets))
    eers = score_lists(run, network, name, measured).eers
    mark_evaluations(run.folders.layout, run.world, run.lists, measured)
    for corpus, rate in eers.items():
        path = run.folders.layout.score_file(NetworkName.parse(name), corpus)
        record = {"network": name, "set": corpus, "eer": rate, "path": path}
        run.callbacks().call("on_scores", record)
    return eers


def report(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Compute the metrics of the score files; log them, and write tables and a page."""
    layout = run.folders.layout
    recipe = run.settings.recipe
    names = list(map(NetworkName.parse, networks))
    sets = [evaluated_name(recipe, corpus) for corpus in sets]
    metric = ChosenMetric(run.settings, run.folders.recipe)
    tasks = find_tasks(run.settings, run.folders.recipe)

    def pairs(corpora: Sequence[str]) -> list[ScoredSet]:
        """Return each network with each of the corpora."""
        found = []
        for name, corpus in product(names, corpora):
            paths = layout.score_file(name, corpus), layout.trials_file(corpus)
            found.append(ScoredSet(str(name), corpus, *paths))
        return found

    rows = []
    for scored in pairs(sets):
        row = _result_row(scored, metric, tasks, run.lists)
        if row is not None:
            rows.append(row)
    LOG.info("%s", results_table(rows))
    for sentence in describe_stale(read_evaluations(layout)):
        LOG.warning("warning: %s", sentence)
    for text in tasks.report(pairs(sets), pairs(recipe.validated_sets), layout.results):
        LOG.info("%s", text)
    records = write_results(layout.results, rows)
    # The page shows the rows just written, which are the run's last report.
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
    scored: ScoredSet, metric: ChosenMetric, tasks: Tasks, lists: RunLists
) -> Row | None:
    """Return the results of a network on a set; None if all trials are of one class.

    They are computed from the score file, because stage 3 may run on another day.

    Raises:
        AsdfError: there is no score file.
    """
    path = scored.score_file
    corpus = scored.corpus
    if not path.exists():
        raise AsdfError(f"there is no score file {path}: run stage 2 first (recipe.start_stage=2).")
    of_tasks = tasks.read(path)
    scores = read_scores(path, both_classes=not tasks.allow_one_class(of_tasks))
    if missing_class(scores.labels):
        LOG.info("%s has trials of one class only: %s are reported", corpus, ", ".join(of_tasks))
        return None
    for remark in filter(None, (replaced_network(path.absolute()), lists.changed_since(path))):
        LOG.warning("warning: %s", remark)
    return Row(
        epoch=scored.network,
        set=corpus,
        result=evaluate(scores),
        scored=how_scored(path),
        chosen_by=value_of(metric, scores, corpus, of_tasks),
    )
