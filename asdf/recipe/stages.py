"""The work of the stages, put together from the rooms below; recipes call these or write their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.recipe.run import Run
from asdf.runs.evaluations import read_evaluations
from asdf.runs.log import LOG
from asdf.runs.network_names import RESUME, NetworkName, describe_networks, list_networks

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.data.loaders import BatchLoader
    from asdf.training.callback_group import CallbackGroup
    from asdf.training.loop import Trainer
    from asdf.trials.trial_list import TrialList


def train_network(run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray) -> None:
    """Train `network`, going on from where `network.resume_epoch` says, and validate it on the way."""
    from asdf.data.datasets import TrainingClips
    from asdf.data.loaders import BatchLoader
    from asdf.data.training_plan import minibatch_per_process
    from asdf.distributed.batch_norm import synchronise_batch_norm
    from asdf.networks import summary
    from asdf.networks.output_check import check_outputs
    from asdf.training.loop import Trainer
    from asdf.training.retention import average_networks
    from asdf.training.step import Step

    settings, world = run.settings, run.world
    start = _starting_point(run)
    minibatch = minibatch_per_process(settings.network, world.size)
    if world.size > 1 and settings.computing.sync_batch_norm:
        network = synchronise_batch_norm(network)
    LOG.info("%s: %s", settings.network.network_class, summary(network))
    clips = TrainingClips(
        utterances,
        lengths,
        settings.network.train_clip_size,
        settings.rawboost,
        settings.sad,
        settings.recipe.seed,
        settings.network.clip_position,
        run.augmentation(),
    )
    if settings.augmentation.chain:
        LOG.info("training examples are augmented: %s", clips.augmentation.describe())

    def validate(trained: nn.Module, name: NetworkName) -> dict[str, float]:
        return evaluate_network(run, trained, name.file, run.validation_sets)

    trainer = Trainer(
        Step(network, utterances, settings, world, from_features=settings.front_end.cache_features),
        loader=BatchLoader(
            clips,
            settings.computing.network_dataloader_workers,
            world,
            reused=minibatch * settings.network.train_clip_size,
            stop=run.stop,
        ),
        layout=run.folders.layout,
        validate=validate,
        stop=run.stop,
        callbacks=_callbacks(run),
    )
    _resume(run, trainer, start)
    if not trainer.finished():
        with trainer.step.whole_network() as whole:
            world.run_on_main(lambda: check_outputs(whole, settings.network, world.device))
    if settings.front_end.cache_features and not trainer.finished():
        # Only now has the front end the weights that it keeps.
        trainer.loader = _kept_features(run, network, trainer.loader, utterances, lengths)
    LOG.info("%s", trainer.step.precision.reason)
    LOG.info(
        "%d utterances per optimiser step (%d per process and minibatch, %d processes, %d minibatches), "
        "%d steps per epoch",
        trainer.plan.window_size,
        minibatch,
        world.size,
        settings.network.optimizer_step_interval,
        trainer.plan.steps_per_epoch(),
    )
    trainer.run()
    LOG.info("training ended: %s", trainer.finished())
    if settings.network.average_best_networks:
        count = settings.network.average_best_networks
        world.run_on_main(
            lambda: (
                average_networks(run.folders.layout, trainer.progress.evaluations, count) and None
            )
        )


def _kept_features(
    run: Run, network: nn.Module, clips: BatchLoader, utterances: TrialList, lengths: np.ndarray
) -> BatchLoader:
    """A loader of the front end's features of `clips`, which are computed now unless an earlier run did."""
    from asdf.data.feature_cache import FeatureCache, identity_of
    from asdf.data.feature_pass import FeaturePass
    from asdf.data.loaders import BatchLoader
    from asdf.networks import SSLDetector
    from asdf.networks.split import feature_identity

    assert isinstance(network, SSLDetector)  # the step has looked
    world, settings = run.world, run.settings
    work = FeaturePass(
        network.front_end_features, clips, utterances, settings.network, world, run.stop
    )
    identity = world.run_on_main(
        lambda: identity_of(feature_identity(network), utterances, lengths, settings)
    )
    features = work.keep(FeatureCache(run.folders.features, identity, work.shape()))
    return BatchLoader(
        features, settings.computing.network_dataloader_workers, world, stop=run.stop
    )


def validate_network(run: Run) -> None:
    """Score the validation sets with the network that network.resume_epoch = -N names."""
    name = NetworkName.after_epoch(-int(run.settings.network.resume_epoch)).file
    LOG.info("network.resume_epoch = %s: no training", run.settings.network.resume_epoch)
    evaluate_network(run, run.load_network(name), name, run.validation_sets)


def evaluate_network(
    run: Run, network: nn.Module, name: str, sets: Iterable[str]
) -> dict[str, float]:
    """Score `sets` with a network, write the score files and return the EERs, on every rank."""
    from asdf.metrics.detection import eer
    from asdf.scoring.score_list import build_list_scorer, score_list
    from asdf.trials.how_scored import in_precision
    from asdf.trials.score_file import write_scores
    from asdf.trials.scored_files import remove_how_scored, write_how_scored
    from asdf.trials.table import write_trials

    eers: dict[str, float] = {}
    scorer = build_list_scorer(network, run.settings, run.world)
    scored = scorer.how_scored
    for corpus in sets:
        utterances = run.utterances(corpus)
        lengths = run.lengths(utterances)
        scores = score_list(scorer, utterances, lengths, run.settings, run.world, run.stop)
        path = run.folders.scores(name, corpus)

        def write(utterances: TrialList = utterances, scores: np.ndarray | None = scores) -> float:
            assert scores is not None  # the main rank has them
            remove_how_scored(path)  # noqa: B023 (called at once)
            write_scores(path, utterances.ids, utterances.labels, scores)  # noqa: B023
            write_how_scored(path, scored)  # noqa: B023
            if utterances.columns:
                write_trials(run.folders.trials(utterances.name), utterances)
            return eer(scores[utterances.labels == 1], scores[utterances.labels == 0])[0]

        eers[corpus] = run.world.run_on_main(write)
        shown = f"EER {100 * eers[corpus]:.3f} %{in_precision(scored.precision)}"
        LOG.info("%s on %s: %s", NetworkName.parse(name), corpus, shown)
    return eers


def report_results(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Compute the metrics of the score files, show them as a table and write them and a page to the results folder."""
    from asdf.metrics.results import Row, evaluate, results_table, write_results
    from asdf.report import gather, report_page
    from asdf.runs.files import write_text
    from asdf.trials.run_folder import open_run_folder
    from asdf.trials.score_file import read_scores
    from asdf.trials.scored_files import how_scored

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
    write_results(run.folders.results, rows)
    # The page is of the rows just written, which are the run's last report.
    page = report_page(gather([open_run_folder(run.folders.system)]))
    write_text(run.folders.layout.report, page)
    LOG.info(
        "written to %s; report.html there shows them with curves and settings", run.folders.results
    )


def _starting_point(run: Run) -> str | None:
    """The checkpoint to go on from: 'auto' for the newest, a file name, or None to start afresh.

    Raises:
        AsdfError: networks are there that the run would overwrite, or the one to go on from is not there.
    """
    asked, folder = run.settings.network.resume_epoch, run.folders.networks
    if asked == "auto":
        return "auto"
    later = [
        name.file
        for name in list_networks(folder)
        if name.position is not None and name.position > (asked, 0)
    ]
    if run.folders.layout.network_file(RESUME).exists():
        later.append(RESUME.file)
    if later:
        raise AsdfError(
            f"network.resume_epoch = {asked} would overwrite {', '.join(later[:4])} in {folder}. Use 'auto' to go on "
            "from the newest, choose another paths.system_folder, or move these networks away."
        )
    if asked == 0:
        return None
    start = NetworkName.after_epoch(asked)
    if not run.folders.layout.network_file(start).exists():
        raise AsdfError(
            f"network.resume_epoch = {asked}: there is no {start.file} in {folder}. {describe_networks(folder)}"
        )
    return start.file


def _resume(run: Run, trainer: Trainer, start: str | None) -> None:
    from asdf.training.checkpoints import (
        fill_network,
        newest_checkpoint,
        progress_in,
        read_checkpoint,
    )

    folder = run.folders.networks
    path = (
        run.world.run_on_main(lambda: newest_checkpoint(folder))
        if start == "auto"
        else start and folder / start
    )
    if path:
        # The ranks of a node share what they read, and none of them holds all of it in memory of its own.
        content = read_checkpoint(path, mapped=True)
        if progress_in(content, path) is None:
            raise AsdfError(
                f"{path} holds weights, but not how far its training had come, as files of other programs do. It "
                "can be scored (recipe.start_stage=2); to train, give this run another paths.system_folder."
            )
        fill_network(path, content, trainer.step.network)
        trainer.resume(content, run.world.run_on_main(lambda: read_evaluations(run.folders.layout)))
        LOG.info(
            "going on from %s: epoch %d, step %d",
            path.name,
            trainer.progress.epochs,
            trainer.progress.step,
        )


def _callbacks(run: Run) -> CallbackGroup:
    """The run's callbacks, which the main rank has; the others find out with it when one cannot be made."""
    from asdf.training.callback_group import CallbackGroup
    from asdf.training.callbacks import Callback, build_callback, find_callbacks
    from asdf.training.metrics_file import MetricsFile

    settings, folder = run.settings, run.folders.system
    classes = find_callbacks(settings, run.recipe_folder)
    users: list[Callback] = []
    run.world.run_on_main(
        lambda: users.extend(build_callback(kind, settings, folder) for kind in classes)
    )
    required = [MetricsFile(settings, folder)]
    return CallbackGroup(
        required, users, run.world, settings.network.callback_failures_end_training
    )
