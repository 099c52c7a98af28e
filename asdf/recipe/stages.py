"""The work of the stages, composed from the rooms below; recipes call these or their own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asdf.errors import AsdfError
from asdf.recipe.run import Run
from asdf.runs.evaluations import ChosenBy, ValidationResult, read_evaluations
from asdf.runs.log import LOG
from asdf.runs.network_names import RESUME, NetworkName, describe_networks, list_networks
from asdf.settings.sections import Sections

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.data.loaders import BatchLoader
    from asdf.metrics.validation import ChosenMetric
    from asdf.training.loop import Trainer
    from asdf.training.step import Step
    from asdf.trials.how_scored import HowScored
    from asdf.trials.trial_list import TrialList


def train_network(run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray) -> None:
    """Train `network`, going on from where `network.resume_epoch` says, and validate it meanwhile.

    Args:
        lengths: of the utterances, in samples after speech activity detection.
    """
    from asdf.data.orders import build_sampler
    from asdf.data.training_plan import minibatch_per_process
    from asdf.training.loop import Trainer

    settings = run.settings
    world = run.world
    start = _starting_point(run)
    minibatch = minibatch_per_process(settings.network, world.size)

    def validate(trained: nn.Module, name: NetworkName) -> ValidationResult | None:
        return _score_validation_sets(run, trained, name.file)

    trainer = Trainer(
        step=_build_step(run, network, utterances),
        loader=_clip_loader(run, utterances, lengths),
        layout=run.folders.layout,
        validate=validate,
        stop=run.stop,
        callbacks=run.callbacks(),
        sampler=build_sampler(settings, utterances, run.recipe_folder),
    )
    _resume(run, trainer, start)
    _record_copies(run, utterances)
    _check_outputs(run, trainer)
    if settings.front_end.cache_features and not trainer.finished():
        # Only now has the front end the weights whose features are saved.
        trainer.loader = _feature_loader(
            run, trainer.step.network, trainer.loader, utterances, lengths
        )
    _log_plan(run, trainer, minibatch)
    trainer.run()
    LOG.info("training ended: %s", trainer.finished())
    if settings.network.average_best_networks:
        world.run_on_main(partial(_average_best_networks, run, trainer))


def _log_sizes(network: nn.Module, settings: Sections) -> None:
    from asdf.networks import summary
    from asdf.networks.build import front_end_summary
    from asdf.networks.tuning import adds_to_front_end

    LOG.info("%s: %s", settings.network.network_class, summary(network))
    if settings.front_end.trained_parts is not None or adds_to_front_end(settings):
        LOG.info("front end: %s", front_end_summary(network))


def _build_step(run: Run, network: nn.Module, utterances: TrialList) -> Step:
    """Return the steps of `network`, whose batch norm is over all processes if that is set."""
    from asdf.distributed.batch_norm import synchronise_batch_norm
    from asdf.training.step import Step

    settings = run.settings
    if run.world.size > 1 and settings.computing.sync_batch_norm:
        network = synchronise_batch_norm(network)
    _log_sizes(network, settings)
    return Step(
        network,
        utterances,
        settings,
        run.world,
        from_features=settings.front_end.cache_features,
        folder=run.recipe_folder,
    )


def _record_copies(run: Run, utterances: TrialList) -> None:
    """Log and record how many of the training utterances each vocoder copies."""
    from asdf.data.vocoded_copies import describe_copies
    from asdf.runs.record import update_record

    counts = utterances.count_vocoded()
    if counts:
        LOG.info("of the training utterances %s", describe_copies(utterances))
        values = {"vocoded_copies": counts}
        run.world.run_on_main(partial(update_record, run.folders.layout.environment, values))


def _check_outputs(run: Run, trainer: Trainer) -> None:
    """Refuse a network whose output has the wrong shape, before hours of training."""
    from asdf.networks.output_check import check_outputs

    if trainer.finished():
        return
    with trainer.step.whole_network() as whole:
        run.world.run_on_main(lambda: check_outputs(whole, run.settings.network, run.world.device))


def _log_plan(run: Run, trainer: Trainer, minibatch: int) -> None:
    """Log the number format of training, and what an optimiser step consists of."""
    LOG.info("%s", trainer.step.precision.reason)
    LOG.info(
        "%d utterances per optimiser step (%d per process and minibatch, %d processes, "
        "%d minibatches), %d steps per epoch",
        trainer.plan.window_size,
        minibatch,
        run.world.size,
        run.settings.network.optimizer_step_interval,
        trainer.plan.steps_per_epoch(),
    )
    turns = trainer.orders.describe()
    if turns:
        LOG.info("recipe.sampler = %r: %s", run.settings.recipe.sampler, turns)


def _clip_loader(run: Run, utterances: TrialList, lengths: np.ndarray) -> BatchLoader:
    """Return the loader of the training clips, augmented as the settings say."""
    from asdf.data.datasets import TrainingClips
    from asdf.data.loaders import BatchLoader
    from asdf.data.mixup import find_mixup

    settings = run.settings
    clips = TrainingClips(
        utterances=utterances,
        lengths=lengths,
        clip_size=settings.network.train_clip_size,
        rawboost=settings.rawboost,
        sad=settings.sad,
        seed=settings.recipe.seed,
        position=settings.network.clip_position,
        augmentation=run.augmentation(),
        vocoders=run.vocoders(),
        mixup=find_mixup(settings, len(utterances)),
    )
    if settings.augmentation.chain:
        LOG.info("training examples are augmented: %s", clips.augmentation.describe())
    if clips.mixup is not None:
        LOG.info("%g of the training examples are mixed with another one", clips.mixup.probability)
    workers = settings.computing.network_dataloader_workers
    return BatchLoader(clips, workers, run.world, stop=run.stop)


def _feature_loader(
    run: Run,
    network: nn.Module,
    clips: BatchLoader,
    utterances: TrialList,
    lengths: np.ndarray,
) -> BatchLoader:
    """Return a loader of the front end's features of `clips`, computed now or by an earlier run."""
    from asdf.data.feature_cache import FeatureCache, identity_of
    from asdf.data.feature_pass import FeaturePass
    from asdf.data.loaders import BatchLoader
    from asdf.networks import SSLDetector
    from asdf.networks.split import feature_identity

    assert isinstance(network, SSLDetector)  # the step has checked it
    settings = run.settings
    world = run.world
    work = FeaturePass(
        network.front_end_features, clips, utterances, settings.network, world, run.stop
    )
    identity = world.run_on_main(
        lambda: identity_of(feature_identity(network), utterances, lengths, settings)
    )
    features = work.fill(FeatureCache(run.folders.features, identity, work.shape()))
    workers = settings.computing.network_dataloader_workers
    return BatchLoader(features, workers, world, stop=run.stop)


def _average_best_networks(run: Run, trainer: Trainer) -> None:
    from asdf.training.retention import average_networks

    count = run.settings.network.average_best_networks
    metric = run.settings.network.validation_metric
    average_networks(run.folders.layout, trainer.progress.evaluations, count, metric)


def validate_network(run: Run) -> None:
    """Score the validation sets with the network that network.resume_epoch = -N names."""
    name = NetworkName.after_epoch(-int(run.settings.network.resume_epoch)).file
    LOG.info("network.resume_epoch = %s: no training", run.settings.network.resume_epoch)
    _score_validation_sets(run, run.load_network(name), name)


def evaluate_network(
    run: Run, network: nn.Module, name: str, sets: Iterable[str]
) -> dict[str, float]:
    """Score `sets` with a network, write the score files and return the EERs, on every rank."""
    lists = (run.utterances(corpus) for corpus in sets)
    measured = ((utterances, run.lengths(utterances)) for utterances in lists)
    eers = _score_lists(run, network, name, measured).eers
    for corpus, eer in eers.items():
        path = run.folders.scores(name, corpus)
        record = {"network": name, "set": corpus, "eer": eer, "path": path}
        run.callbacks().call("on_scores", record)
    return eers


def _score_validation_sets(run: Run, network: nn.Module, name: str) -> ValidationResult | None:
    """Score what is validated on with a network, and compute what networks are chosen by.

    Returns:
        None where there is nothing to validate on.
    """
    from asdf.metrics.validation import ChosenMetric

    if not run.validation_sets:
        return None
    metric = ChosenMetric(run.settings, run.recipe_folder)
    measured = map(run.validation_utterances, run.validation_sets)
    return _score_lists(run, network, name, measured, None if metric.is_eer else metric)


def _score_lists(
    run: Run,
    network: nn.Module,
    name: str,
    measured: Iterable[tuple[TrialList, np.ndarray]],
    metric: ChosenMetric | None = None,
) -> ValidationResult:
    """Score lists, with the lengths of their utterances; return the EERs by the lists' names.

    Args:
        metric: is computed as well; None: the EER alone.
    """
    from asdf.scoring.score_list import build_list_scorer, score_list
    from asdf.trials.how_scored import in_precision

    eers: dict[str, float] = {}
    values: dict[str, float] = {}
    scorer = build_list_scorer(network, run.settings, run.world)
    scored = scorer.how_scored
    for utterances, lengths in measured:
        corpus = utterances.name
        scores = score_list(scorer, utterances, lengths, run.settings, run.world, run.stop)
        path = run.folders.scores(name, corpus)
        result = run.world.run_on_main(
            partial(_write_scores, run, path, utterances, scores, scored, metric)
        )
        eers[corpus] = result.eer
        shown = f"EER {100 * result.eer:.3f} %"
        if metric is not None:
            values[corpus] = result.value
            shown += f", {metric.name} {result.value:.4f}"
        shown += in_precision(scored.precision)
        LOG.info("%s on %s: %s", NetworkName.parse(name), corpus, shown)
    if metric is None:
        return ValidationResult(eers)
    return ValidationResult(eers, ChosenBy(metric.name, values, metric.lower_is_better))


class _SetResult(NamedTuple):
    """The EER on a set, and the value of the metric that networks are chosen by."""

    eer: float
    value: float


def _write_scores(
    run: Run,
    path: Path,
    utterances: TrialList,
    scores: np.ndarray | None,
    scored: HowScored,
    metric: ChosenMetric | None,
) -> _SetResult:
    """Write the score file and what belongs to it, on the main rank; return what is chosen by."""
    from asdf.metrics.detection import eer
    from asdf.trials.score_file import write_scores
    from asdf.trials.scored_files import remove_how_scored, write_how_scored
    from asdf.trials.table import write_trials

    assert scores is not None  # the main rank has them
    # Removed first: a run that is killed here must not leave a description of other scores.
    remove_how_scored(path)
    write_scores(path, utterances.ids, utterances.labels, scores)
    write_how_scored(path, scored)
    if utterances.columns:
        write_trials(run.folders.trials(utterances.name), utterances)
    bona_fide = scores[utterances.labels == 1]
    spoof = scores[utterances.labels == 0]
    rate = eer(bona_fide, spoof)[0]
    if metric is None:
        return _SetResult(rate, rate)
    return _SetResult(rate, metric.value(bona_fide, spoof, utterances.name))


def report_results(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Compute the metrics of the score files; log them as a table, and write them and a page."""
    from asdf.metrics.results import Row, evaluate, results_table, write_results
    from asdf.report import gather, report_page
    from asdf.runs.files import write_text
    from asdf.trials.run_folder import open_run_folder
    from asdf.trials.score_file import read_scores
    from asdf.trials.scored_files import how_scored

    # From the score files, not from memory: stage 3 may run on another day.
    rows = []
    for network in networks:
        for corpus in sets:
            path = run.folders.scores(network, corpus)
            if not path.exists():
                raise AsdfError(
                    f"there is no score file {path}: run stage 2 first (recipe.start_stage=2)."
                )
            result = evaluate(read_scores(path))
            rows.append(Row(str(NetworkName.parse(network)), corpus, result, how_scored(path)))
    LOG.info("%s", results_table(rows))
    records = write_results(run.folders.results, rows)
    # The page is of the rows just written, which are the run's last report.
    page = report_page(gather([open_run_folder(run.folders.system)]))
    write_text(run.folders.layout.report, page)
    # The other ranks wait.
    run.callbacks().call_alone("on_results", records)
    LOG.info(
        "written to %s; report.html there shows them with curves and settings", run.folders.results
    )


def _starting_point(run: Run) -> str | None:
    """Return the checkpoint to go on from: 'auto' for the newest, a file name, or None for none.

    Raises:
        AsdfError: the run would overwrite networks, or the one to go on from does not exist.
    """
    epoch = run.settings.network.resume_epoch
    folder = run.folders.networks
    if epoch == "auto":
        return "auto"
    # The position, not the number: epoch.3.step.50 is overwritten by training from epoch 2.
    later = []
    for name in list_networks(folder):
        if name.position is not None and name.position > (epoch, 0):
            later.append(name.file)
    if run.folders.layout.network_file(RESUME).exists():
        later.append(RESUME.file)
    if later:
        raise AsdfError(
            f"network.resume_epoch = {epoch} would overwrite {', '.join(later[:4])} in {folder}. "
            "Use 'auto' to go on from the newest, choose another paths.system_folder, or move "
            "these networks away."
        )
    if epoch == 0:
        return None
    start = NetworkName.after_epoch(epoch)
    if not run.folders.layout.network_file(start).exists():
        raise AsdfError(
            f"network.resume_epoch = {epoch}: there is no {start.file} in {folder}. "
            f"{describe_networks(folder)}"
        )
    return start.file


def _resume(run: Run, trainer: Trainer, start: str | None) -> None:
    """Go on from `start`, which `_starting_point` returned."""
    from asdf.training.checkpoints import (
        fill_network,
        newest_checkpoint,
        progress_in,
        read_checkpoint,
    )

    folder = run.folders.networks
    # The main rank alone looks: on a shared disk the ranks may see different newest files.
    if start == "auto":
        path = run.world.run_on_main(lambda: newest_checkpoint(folder))
    else:
        path = folder / start if start else None
    if path is None:
        return
    # The ranks of a node share what they read, and none of them holds all of it in its own memory.
    checkpoint = read_checkpoint(path, mapped=True)
    if progress_in(checkpoint) is None:
        raise AsdfError(
            f"{path} holds weights, but not how far its training had come, as files of other "
            "programs do. It can be scored (recipe.start_stage=2); to train, give this run another "
            "paths.system_folder."
        )
    fill_network(trainer.step.network, checkpoint)
    evaluations = run.world.run_on_main(lambda: read_evaluations(run.folders.layout))
    trainer.resume(checkpoint, evaluations)
    LOG.info(
        "going on from %s: epoch %d, step %d",
        path.name,
        trainer.progress.epochs,
        trainer.progress.step,
    )
