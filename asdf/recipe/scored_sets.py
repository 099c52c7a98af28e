"""Scoring whole sets with a network: score files, EERs, and the metric that networks are chosen by.

Invariant: a set's result is computed on the main rank, from the scores that its file has; the
other ranks get it from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from asdf.errors import AsdfError
from asdf.recipe.located_sets import divide_frames, replace_frames
from asdf.recipe.run import Run
from asdf.runs.evaluations import ChosenBy, ValidationResult
from asdf.runs.log import LOG
from asdf.runs.network_names import NetworkName

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.metrics.results import MetricValue
    from asdf.metrics.validation import ChosenMetric
    from asdf.scoring.score_list import ScoredList
    from asdf.trials.how_scored import HowScored
    from asdf.trials.score_file import Scores
    from asdf.trials.source_scores import SourceScores
    from asdf.trials.sources import SourceClasses
    from asdf.trials.trial_list import TrialList


def score_validation_sets(run: Run, network: nn.Module, name: str) -> ValidationResult | None:
    """Score what is validated on with a network, and compute what networks are chosen by.

    Returns:
        None where there is nothing to validate on.
    """
    from asdf.metrics.validation import ChosenMetric

    if not run.validation_sets:
        return None
    metric = ChosenMetric(run.settings, run.recipe_folder)
    measured = list(map(run.validation_utterances, run.validation_sets))
    result = score_lists(run, network, name, measured, None if metric.is_eer else metric)
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
) -> ValidationResult:
    """Score lists, with the lengths of their utterances; return the EERs by the lists' names.

    What was scored is saved next to the score files until `run.end_scoring()`, so that neither a
    list that was stopped nor the long ones before it are scored again.

    Args:
        metric: is computed as well; None: the EER alone.
    """
    from asdf.interchange import digest_in_memory
    from asdf.scoring.score_list import build_list_scorer, score_and_trace
    from asdf.trials.how_scored import in_precision

    eers: dict[str, float] = {}
    values: dict[str, float] = {}
    scorer = build_list_scorer(network, run.settings, run.world)
    # Of gigabytes of weights it takes seconds: once for all sets, and on the rank that writes it.
    digest = run.world.run_on_main(partial(digest_in_memory, network, run.settings))
    scored = replace(scorer.how_scored, network=digest)
    has_frames = scorer.frame_hop is not None
    for utterances, lengths in measured:
        corpus = utterances.name
        path = run.folders.scores(name, corpus)
        run.scored.append(path)
        scores = score_and_trace(
            scorer, utterances, lengths, run.settings, run.world, run.stop, has_frames, path
        )
        classes = scorer.source_classes
        result = run.world.run_on_main(
            partial(_write_scores, run, name, utterances, scores, scored, classes, metric)
        )
        eers[corpus] = result.eer
        shown = f"EER {100 * result.eer:.3f} %"
        if math.isnan(result.eer):
            shown = "no EER, as all trials are of one class"
        if metric is not None:
            values[corpus] = result.value
            shown += f", {metric.name} {result.value:.4f}"
        shown += in_precision(scored.precision) + result.words
        LOG.info("%s on %s: %s", NetworkName.parse(name), corpus, shown)
    if metric is None:
        return ValidationResult(eers)
    return ValidationResult(eers, ChosenBy(metric.name, values, metric.lower_is_better))


class _SetResult(NamedTuple):
    """The EER on a set, the metric that networks are chosen by, and what else there is to say."""

    eer: float
    value: float
    words: str = ""


def _write_scores(
    run: Run,
    name: str,
    utterances: TrialList,
    computed: ScoredList | None,
    scored: HowScored,
    classes: SourceClasses | None,
    metric: ChosenMetric | None,
) -> _SetResult:
    """Write the score file and what belongs to it, on the main rank; return what is chosen by."""
    from asdf.metrics.detection import eer
    from asdf.metrics.sources import describe_traced
    from asdf.trials.known_roles import training_words
    from asdf.trials.score_file import write_scores
    from asdf.trials.scored_files import remove_how_scored, write_how_scored
    from asdf.trials.source_scores import sources_file, trace, write_source_scores
    from asdf.trials.table import write_trials

    assert computed is not None  # the main rank has them
    scores = computed.scores
    path = run.folders.scores(name, utterances.name)
    # Removed first: a run that is killed here must not leave a description of other scores.
    remove_how_scored(path)
    sources_file(path).unlink(missing_ok=True)
    replace_frames(run.folders.frames(name, utterances.name), computed.frames)
    write_scores(path, utterances.ids, utterances.labels, scores)
    write_how_scored(path, replace(scored, trials=len(utterances)))
    if utterances.columns:
        write_trials(run.folders.trials(utterances.name), utterances)
    bona_fide = scores[utterances.labels == 1]
    spoof = scores[utterances.labels == 0]
    # Sources are traced in lists of one class as well.
    is_whole = classes is None or (len(bona_fide) and len(spoof))
    rate = eer(bona_fide, spoof)[0] if is_whole else math.nan
    traced = None
    if classes is not None and computed.sources is not None:
        traced = trace(utterances, classes, computed.sources)
        write_source_scores(sources_file(path), traced)
    value = rate
    if metric is not None:
        if metric.of_frames and computed.frames is not None:
            bona_fide, spoof = divide_frames(computed.frames, utterances)
        value = metric.of_set(bona_fide, spoof, traced, utterances.name)
    return _SetResult(rate, value, describe_traced(traced) + training_words(path))


def value_of(
    metric: ChosenMetric, scores: Scores, corpus: str, traced: SourceScores | None = None
) -> MetricValue | None:
    """Return the value on a set of the metric that networks are chosen by; None for the EER.

    None also where it fails, as a user's own may on a set that no network was chosen on: a warning
    says so, and the other results of the set stand.
    """
    from asdf.metrics.results import MetricValue

    # A metric of frames is in the results of localisation.
    if metric.is_eer or metric.of_frames:
        return None
    try:
        value = metric.of_set(scores.bona_fide, scores.spoof, traced, corpus)
    except AsdfError as error:
        LOG.warning("warning: %s", error)
        return None
    return MetricValue(metric.name, value, metric.lower_is_better)
