"""The work of the stages, composed of lower rooms; recipes call these functions or their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.recipe.run import Run
from asdf.recipe.scored_sets import score_lists, score_validation_sets, value_of
from asdf.recipe.stale import mark_evaluations
from asdf.recipe.starting_point import find_starting_point, resume_training
from asdf.recipe.training_clips import (
    build_clip_frames,
    build_clip_loader,
    build_feature_loader,
)
from asdf.runs.evaluations import ValidationResult, describe_stale, read_evaluations
from asdf.runs.layout import NetworkName
from asdf.runs.log import LOG
from asdf.text import count_of

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.metrics.run_results import Row
    from asdf.metrics.validation import ChosenMetric
    from asdf.report import Gathered
    from asdf.training.loop import Trainer
    from asdf.training.step import Step
    from asdf.training.task import Tasks
    from asdf.trials.trial_list import TrialList


def train_network(run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray) -> None:
    """Train `network`, resuming as `network.resume_epoch` specifies, and validate it meanwhile.

    Args:
        lengths: Lengths of the utterances, in samples after speech activity detection.
    """
    start = find_starting_point(run)
    trainer = _prepare_training(run, network, utterances, lengths, start)
    trainer.run()
    LOG.info("training ended: %s", trainer.finished())
    if run.settings.network.average_best_networks:
        run.world.run_on_main(partial(_average_best_networks, run, trainer))


def _prepare_training(
    run: Run,
    network: nn.Module,
    utterances: TrialList,
    lengths: np.ndarray,
    start: str | None,
) -> Trainer:
    """Return a trainer that continues from `start`, with its plan logged."""
    from asdf.data.training_plan import minibatch_per_process
    from asdf.networks.output_check import check_outputs

    settings = run.settings
    world = run.world
    minibatch = minibatch_per_process(settings.network, world.size)
    step = _build_step(run, network, utterances, lengths)
    trainer = _build_trainer(run, step, utterances, lengths)
    resume_training(run, trainer, start)
    _record_copies(run, utterances)
    if not trainer.finished():
        # Checked before hours of training.
        with step.whole_network() as whole:
            world.run_on_main(partial(check_outputs, whole, settings.network, world.device))
    if settings.front_end.cache_features and not trainer.finished():
        # Only now has the front end the weights whose features are saved.
        trainer.loader = build_feature_loader(
            run, trainer.step.network, trainer.loader, utterances, lengths
        )
    _log_plan(run, trainer, minibatch)
    return trainer


def _build_trainer(
    run: Run,
    step: Step,
    utterances: TrialList,
    lengths: np.ndarray,
) -> Trainer:
    from asdf.data.length_groups import find_groups
    from asdf.data.sampler_orders import build_sampler
    from asdf.training.loop import Trainer
    from asdf.training.objective import loss_on_trials

    def validate(trained: nn.Module, name: NetworkName) -> ValidationResult | None:
        loss = loss_on_trials(step.objective, trained, run.settings)
        return score_validation_sets(run, trained, name.file, loss)

    return Trainer(
        step=step,
        loader=build_clip_loader(run, utterances, lengths),
        layout=run.folders.layout,
        validate=validate,
        stop=run.stop,
        callbacks=run.callbacks(),
        sampler=build_sampler(run.settings, utterances, run.recipe_folder),
        groups=find_groups(run.settings, lengths),
    )


def _build_step(run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray) -> Step:
    """Return the steps of `network`, with batch norm across all processes if that is set."""
    from asdf.distributed.batch_norm import synchronise_batch_norm
    from asdf.networks import summary
    from asdf.networks.build import front_end_summary
    from asdf.training.step import Step

    settings = run.settings
    if run.world.size > 1 and settings.computing.sync_batch_norm:
        network = synchronise_batch_norm(network)
    LOG.info("%s: %s", settings.network.network_class, summary(network))
    if settings.front_end.trained_parts is not None or settings.lora.rank:
        LOG.info("front end: %s", front_end_summary(network))
    return Step(
        network,
        utterances,
        settings,
        run.world,
        from_features=settings.front_end.cache_features,
        folder=run.recipe_folder,
        frames=build_clip_frames(run, network, utterances, lengths),
    )


def _record_copies(run: Run, utterances: TrialList) -> None:
    """Log and record how many of the training utterances each vocoder copies."""
    from asdf.data.sampler_orders import describe_copies
    from asdf.runs.start_records import update_record

    counts = utterances.count_vocoded()
    if counts:
        LOG.info("of the training utterances %s", describe_copies(utterances))
        values = {"vocoded_copies": counts}
        run.world.run_on_main(partial(update_record, run.folders.layout.environment, values))


def _log_plan(run: Run, trainer: Trainer, minibatch: int) -> None:
    """Log the number format of training, and the composition of an optimiser step."""
    from asdf.data.length_groups import describe_groups

    LOG.info("%s", trainer.step.precision.reason)
    interval = run.settings.network.optimizer_step_interval
    processes = count_of(run.world.size, "process")
    if trainer.plan.grouped:
        LOG.info("%s", describe_groups(trainer.plan.turns(1), run.settings.lengths))
        LOG.info(
            "%s per optimiser step (%s, %d each), %d steps in epoch 1",
            count_of(run.world.size * interval, "minibatch"),
            processes,
            interval,
            trainer.plan.steps_per_epoch(),
        )
    else:
        LOG.info(
            "%d utterances per optimiser step (%d per process and minibatch, %s, %s), "
            "%d steps per epoch",
            trainer.plan.window_size,
            minibatch,
            processes,
            count_of(interval, "minibatch"),
            trainer.plan.steps_per_epoch(),
        )
    turns = trainer.orders.describe()
    if turns:
        LOG.info("recipe.sampler = %r: %s", run.settings.recipe.sampler, turns)


def _average_best_networks(run: Run, trainer: Trainer) -> None:
    from asdf.training.validating import average_networks

    count = run.settings.network.average_best_networks
    metric = run.settings.network.validation_metric
    average_networks(run.folders.layout, trainer.progress.evaluations, count, metric)


def validate_network(run: Run) -> None:
    """Score the validation sets with the network chosen by network.resume_epoch = -N."""
    name = NetworkName.after_epoch(-int(run.settings.network.resume_epoch)).file
    LOG.info("network.resume_epoch = %s: no training", run.settings.network.resume_epoch)
    score_validation_sets(run, run.load_network(name), name)


def evaluate_network(
    run: Run,
    network: nn.Module,
    name: str,
    sets: Iterable[str],
) -> dict[str, float]:
    """Score `sets` with a network, write the score files and return the EERs, on every rank."""
    measured = list(map(run.evaluation_utterances, sets))
    eers = score_lists(run, network, name, measured).eers
    mark_evaluations(run, [utterances for utterances, _ in measured])
    for corpus, eer in eers.items():
        path = run.folders.scores(name, corpus)
        record = {"network": name, "set": corpus, "eer": eer, "path": path}
        run.callbacks().call("on_scores", record)
    return eers


def report_results(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Compute the metrics of the score files; log them, and write tables and a page."""
    from asdf.metrics.run_results import results_table, write_results
    from asdf.metrics.validation import ChosenMetric
    from asdf.report import gather, report_page
    from asdf.runs.files import write_text
    from asdf.training.task import find_tasks
    from asdf.trials.run_folder import open_run_folder

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
    _report_tasks(run, tasks, networks, sets)
    records = write_results(run.folders.results, rows)
    # The page shows the rows just written, which are the run's last report.
    gathered = gather([open_run_folder(run.folders.system)])
    write_text(run.folders.layout.report, report_page(gathered))
    _write_generalisation(run, gathered)
    # The other ranks wait.
    run.callbacks().call_alone("on_results", records)
    LOG.info(
        "written to %s; report.html there shows them with curves and settings", run.folders.results
    )


def _report_tasks(run: Run, tasks: Tasks, networks: Sequence[str], sets: Sequence[str]) -> None:
    """Log and write the results of the networks' tasks."""
    from asdf.training.task import ScoredSet

    def sets_of(names: Sequence[str]) -> list[ScoredSet]:
        scored = []
        for network in networks:
            name = str(NetworkName.parse(network))
            for corpus in names:
                paths = run.folders.scores(network, corpus), run.folders.trials(corpus)
                scored.append(ScoredSet(name, corpus, *paths))
        return scored

    scored, validated = sets_of(sets), sets_of(run.validation_sets)
    for text in tasks.report(scored, validated, run.folders.results):
        LOG.info("%s", text)


def _result_row(
    run: Run,
    network: str,
    corpus: str,
    metric: ChosenMetric,
    tasks: Tasks,
) -> Row | None:
    """Return the results of a network on a set; None if all trials are of one class.

    They are computed from the score file, because stage 3 may run on another day.

    Raises:
        AsdfError: there is no score file.
    """
    from asdf.metrics.results import evaluate
    from asdf.metrics.run_results import Row
    from asdf.trials.score_file import missing_class, read_scores
    from asdf.trials.scored_files import how_scored

    path = run.folders.scores(network, corpus)
    if not path.exists():
        raise AsdfError(f"there is no score file {path}: run stage 2 first (recipe.start_stage=2).")
    of_tasks = tasks.read(path)
    scores = read_scores(path, both_classes=not tasks.allow_one_class(of_tasks))
    if missing_class(scores.labels):
        LOG.info("%s has trials of one class only: %s are reported", corpus, ", ".join(of_tasks))
        return None
    return Row(
        epoch=str(NetworkName.parse(network)),
        set=corpus,
        result=evaluate(scores),
        scored=how_scored(path),
        chosen_by=value_of(metric, scores, corpus, of_tasks),
    )


def _write_generalisation(run: Run, gathered: Gathered) -> None:
    """Log and write the results over several corpora, if there are any."""
    from asdf.runs.files import write_text
    from asdf.tasks.studies.generalisation import generalisation_json, generalisation_text

    known = gathered.generalisation
    if known is None:
        return
    text = generalisation_text(known)
    LOG.info("generalisation\n%s", text)
    write_text(run.folders.layout.generalisation_text, text)
    write_text(run.folders.layout.generalisation_json, generalisation_json(known))
