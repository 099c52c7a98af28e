"""Scoring of whole sets with a network: score files, EERs, and the selection metric.

Invariant: the main rank computes a set's result from the scores in its file, and sends it to the
other ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from asdf.errors import AsdfError
from asdf.recipe.run import Run
from asdf.runs.evaluations import ChosenBy, ValidationResult
from asdf.runs.layout import NetworkName
from asdf.runs.log import LOG

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.metrics.run_results import MetricValue
    from asdf.metrics.validation import ChosenMetric
    from asdf.networks.extras import Extra
    from asdf.scoring.score_list import ScoredList
    from asdf.training.objective import LossOnTrials
    from asdf.training.task import Tasks
    from asdf.trials.how_scored import HowScored
    from asdf.trials.score_file import Scores
    from asdf.trials.trial_list import TrialList


def score_validation_sets(
    run: Run,
    network: nn.Module,
    name: str,
    loss: LossOnTrials | None = None,
) -> ValidationResult | None:
    """Score the validation sets with a network, and compute the selection metric.

    Args:
        loss: Loss of training, whose means are computed too; None: no loss.

    Returns:
        Results on the validation sets; None if there are none.
    """
    from asdf.metrics.validation import ChosenMetric

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
    from asdf.interchange import digest_in_memory
    from asdf.scoring.score_list import build_list_scorer, score_with_extras
    from asdf.training.task import find_tasks
    from asdf.trials.how_scored import in_precision

    results: dict[str, _SetResult] = {}
    scorer = build_list_scorer(network, run.settings, run.world, loss)
    # This takes seconds for gigabytes of weights, so it is done once, on the rank that writes it.
    digest = run.world.run_on_main(partial(digest_in_memory, network, run.settings))
    scored = replace(scorer.how_scored, network=digest)
    # All extras over time of the network; only commands request an embedding.
    wanted = [key for key, extra in scorer.extras.items() if extra.hop is not None]
    tasks = find_tasks(run.settings, run.recipe_folder)
    for utterances, lengths in measured:
        corpus = utterances.name
        path = run.folders.scores(name, corpus)
        run.scored.append(path)
        scores = score_with_extras(
            scorer, utterances, lengths, run.settings, run.world, run.stop, wanted, path
        )
        result = run.world.run_on_main(
            partial(
                _write_scores, run, name, utterances, scores, scored, tasks, scorer.extras, metric
            )
        )
        mean = run.world.run_on_main(partial(_mean_loss, loss, scores, utterances))
        result = replace(result, loss=mean)
        results[corpus] = result
        shown = result.describe(metric) + in_precision(scored.precision) + result.words
        LOG.info("%s on %s: %s", NetworkName.parse(name), corpus, shown)
    return _validation_result(results, metric)


def _validation_result(
    results: Mapping[str, _SetResult], metric: ChosenMetric | None
) -> ValidationResult:
    chosen_by = None
    if metric is not None:
        values = {corpus: result.value for corpus, result in results.items()}
        chosen_by = ChosenBy(metric.name, values, metric.lower_is_better)
    eers = {corpus: result.eer for corpus, result in results.items()}
    known = {corpus: result.loss for corpus, result in results.items()}
    losses = {corpus: loss for corpus, loss in known.items() if loss is not None}
    return ValidationResult(eers, chosen_by, losses=losses)


@dataclass(frozen=True)
class _SetResult:
    """The EER on a set, the selection metric, and further numbers.

    Attributes:
        loss: Mean of the training's loss; None if unknown.
    """

    eer: float
    value: float
    words: str = ""
    loss: float | None = None

    def describe(self, metric: ChosenMetric | None) -> str:
        """Return the numbers for the log."""
        shown = f"EER {100 * self.eer:.3f} %"
        if math.isnan(self.eer):
            shown = "no EER, as all trials are of one class"
        if metric is not None:
            shown += f", {metric.name} {self.value:.4f}"
        return shown if self.loss is None else f"{shown}, loss {self.loss:.4f}"


def _write_scores(
    run: Run,
    name: str,
    utterances: TrialList,
    computed: ScoredList | None,
    scored: HowScored,
    tasks: Tasks,
    extras: Mapping[str, Extra],
    metric: ChosenMetric | None,
) -> _SetResult:
    """Write the score file and related files on the main rank; return the selection value."""
    from asdf.metrics.detection import eer
    from asdf.trials.score_file import write_scores
    from asdf.trials.scored_files import remove_how_scored, training_words, write_how_scored
    from asdf.trials.table import write_trials

    assert computed is not None  # the main rank has them
    scores = computed.scores
    path = run.folders.scores(name, utterances.name)
    # Removed first, so that a run killed here does not leave the description of other scores.
    remove_how_scored(path)
    tasks.remove(path)
    write_scores(path, utterances.ids, utterances.labels, scores)
    write_how_scored(path, replace(scored, trials=len(utterances)))
    if utterances.columns:
        write_trials(run.folders.trials(utterances.name), utterances)
    bona_fide = scores[utterances.labels == 1]
    spoof = scores[utterances.labels == 0]
    of_tasks = tasks.write(path, utterances, {**computed.extras, **computed.over_time}, extras)
    # A task may also score lists of one class.
    is_whole = not tasks.allow_one_class(of_tasks) or (len(bona_fide) and len(spoof))
    rate = eer(bona_fide, spoof)[0] if is_whole else math.nan
    value = rate
    if metric is not None:
        value = metric.of_set(bona_fide, spoof, of_tasks, utterances.name)
    return _SetResult(rate, value, tasks.describe(of_tasks) + training_words(path))


def _mean_loss(
    loss: LossOnTrials | None,
    computed: ScoredList | None,
    utterances: TrialList,
) -> float | None:
    """Return the mean of the loss on a list, on the main rank; None if unknown."""
    if loss is None or computed is None or computed.losses is None:
        return None
    mean = loss.mean(computed.losses, utterances.labels)
    return mean if math.isfinite(mean) else None


def value_of(
    metric: ChosenMetric,
    scores: Scores,
    corpus: str,
    of_tasks: Mapping[str, Any],
) -> MetricValue | None:
    """Return the value of the selection metric on a set; None for the EER.

    Args:
        of_tasks: Scores of the tasks, by their keys.

    The result is also None if the metric fails, as a user's own metric may on a set that is not
    used for selection; a warning is logged, and the other results of the set are kept.
    """
    from asdf.metrics.run_results import MetricValue

    # A frame metric is in the results of localisation.
    if metric.is_eer or metric.task == "frames":
        return None
    try:
        value = metric.of_set(scores.bona_fide, scores.spoof, of_tasks, corpus)
    except AsdfError as error:
        LOG.warning("warning: %s", error)
        return None
    return MetricValue(metric.name, value, metric.lower_is_better)
