"""Stage 1: the starting point of training, its clips or features, and the trainer.

Invariant: no network of an earlier training is overwritten. Every rank checks this before anything
else.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from torch import nn

from asdf.audio.vocoding import open_vocoders
from asdf.checkpoint.network_reading import fill_network
from asdf.data.batches import find_mixup
from asdf.data.datasets import ClipFrames, References, TrainingClips
from asdf.data.feature_cache import FeatureCache, FeaturePass, identity_of
from asdf.data.loaders import BatchLoader
from asdf.data.sampler_orders import build_sampler, describe_copies, describe_groups, find_groups
from asdf.data.training_plan import minibatch_per_process
from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.errors import AsdfError, UsageError
from asdf.networks import SSLDetector, frame_hop, summary
from asdf.networks.build import channels_of, front_end_summary
from asdf.networks.output_check import check_outputs
from asdf.networks.split import feature_identity
from asdf.recipe.run import Run
from asdf.recipe.scoring_stage import score_validation_sets
from asdf.recipe.starts import mark_evaluations, record_training
from asdf.runs.evaluations import ValidationResult, describe_stale
from asdf.runs.layout import RESUME, Layout, NetworkName, describe_networks, list_networks
from asdf.runs.log import LOG
from asdf.runs.start_records import update_record
from asdf.scoring.computing import agree_on_precision
from asdf.settings import Sections
from asdf.text import count_of
from asdf.training.checkpoints import (
    average_networks,
    newest_checkpoint,
    progress_in,
    read_checkpoint,
)
from asdf.training.loop import Trainer
from asdf.training.objective import loss_on_trials
from asdf.training.schedules import cosine, linear
from asdf.training.step import Step
from asdf.trials.trial_list import TrialList


def find_starting_point(epoch: int | Literal["auto"], layout: Layout) -> str | None:
    """Return the checkpoint to resume from: 'auto' for the newest, a file name, or None.

    Args:
        epoch: Value of network.resume_epoch.

    Raises:
        AsdfError: the run would overwrite networks, or the checkpoint does not exist.
    """
    folder = layout.networks
    if epoch == "auto":
        return "auto"
    # Compare positions, not numbers: training from epoch 2 overwrites epoch.3.step.50.
    positions = {name.file: name.position for name in list_networks(folder)}
    later = [file for file, position in positions.items() if position and position > (epoch, 0)]
    if layout.network_file(RESUME).exists():
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
    if not layout.network_file(start).exists():
        raise AsdfError(
            f"network.resume_epoch = {epoch}: there is no {start.file} in {folder}. "
            f"{describe_networks(folder)}"
        )
    return start.file


def train(run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray) -> None:
    """Train `network` from where `network.resume_epoch` says, and validate it meanwhile."""
    settings = run.settings
    world = run.world
    start = find_starting_point(settings.network.resume_epoch, run.folders.layout)
    minibatch = minibatch_per_process(settings.network, world.size)
    step = _build_step(run, network, utterances, lengths)

    def validate(trained: nn.Module, name: NetworkName) -> ValidationResult | None:
        loss = loss_on_trials(step.objective, trained, settings)
        return score_validation_sets(run, trained, name.file, loss)

    trainer = Trainer(
        step=step,
        loader=build_clip_loader(run, utterances, lengths),
        layout=run.folders.layout,
        validate=validate,
        stop=run.stop,
        callbacks=run.callbacks(),
        sampler=build_sampler(settings, utterances, run.folders.recipe),
        groups=find_groups(settings, lengths),
    )
    resume_training(run, trainer, start)
    copies = utterances.count_vocoded()
    if copies:
        LOG.info("of the training utterances %s", describe_copies(utterances))
        record = {"vocoded_copies": copies}
        world.run_on_main(partial(update_record, run.folders.layout.environment, record))
    if not trainer.finished():
        # Checked before hours of training.
        with step.whole_network() as whole:
            world.run_on_main(partial(check_outputs, whole, settings.network, world.device))
        if settings.front_end.cache_features:
            # Only now has the front end the weights whose features are saved.
            trainer.loader = build_feature_loader(
                run, trainer.step.network, trainer.loader, utterances, lengths
            )
    _log_plan(trainer, settings, minibatch)
    trainer.run()
    LOG.info("training ended: %s", trainer.finished())
    count = settings.network.average_best_networks
    if count:
        metric = settings.network.validation_metric
        evaluations = trainer.progress.evaluations
        world.run_on_main(partial(average_networks, run.folders.layout, evaluations, count, metric))


def _build_step(run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray) -> Step:
    """Return the steps of `network`, with batch norm across all processes if that is set."""
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
        folder=run.folders.recipe,
        frames=build_clip_frames(run, network, utterances, lengths),
    )


def resume_training(run: Run, trainer: Trainer, start: str | None) -> None:
    """Resume from `start`, the result of `find_starting_point`."""
    folder = run.folders.networks
    # Only the main rank looks: on a shared disk the ranks may see different newest files.
    if start == "auto":
        path = run.world.run_on_main(lambda: newest_checkpoint(folder))
    else:
        path = folder / start if start else None
    if path is None:
        record_training(run, 0)
        return
    # The ranks of a node share the memory of the file, and none of them holds all of it.
    checkpoint = read_checkpoint(path, mapped=True)
    if progress_in(checkpoint) is None:
        raise AsdfError(
            f"{path} contains weights but no training progress, like files of other programs. It "
            "can be scored (recipe.start_stage=2); to train, give this run another "
            "paths.system_folder."
        )
    fill_network(trainer.step.network, checkpoint)
    # Validations of recordings that were replaced since are marked.
    names = run.settings.recipe.validated_sets
    lists = [run.lists.validation(name).utterances for name in names]
    evaluations = mark_evaluations(run, lists)
    for sentence in describe_stale(evaluations):
        if run.world.is_main:
            LOG.warning("warning: %s", sentence)
    trainer.resume(checkpoint, evaluations)
    if start == "auto" and path.name != RESUME.file:
        # This file was left by a run that was killed while writing the newer checkpoint.
        resume = run.folders.layout.network_file(RESUME)
        run.world.run_on_main(partial(resume.unlink, missing_ok=True))
    LOG.info(
        "going on from %s: epoch %d, step %d",
        path.name,
        trainer.progress.epochs,
        trainer.progress.step,
    )
    record_training(run, trainer.progress.step)
    groups = (checkpoint.optimiser_state or {}).get("param_groups", ())
    _log_stretch(trainer, [group["lr"] for group in groups])


def _log_stretch(trainer: Trainer, saved: list[float]) -> None:
    """Log the rates of the last and the next step if a longer training makes the rate rise."""
    step, progress, settings = trainer.step, trainer.progress, trainer.settings
    # The next step sets the rate again.
    size = len(trainer.plan.order(1))
    now = step.update.set_rate(progress, size)
    was = max(saved, default=now)
    rises = now > was and progress.step >= settings.network.warmup_steps
    if rises and step.update.schedule.function in (linear, cosine):
        LOG.info(
            "the schedule %r is stretched to the new length: the rate goes from %.3g back to %.3g",
            settings.network.schedule,
            was,
            now,
        )


def _log_plan(trainer: Trainer, settings: Sections, minibatch: int) -> None:
    """Log the number format of training, and the composition of an optimiser step."""
    LOG.info("%s", trainer.step.precision.reason)
    plan = trainer.plan
    interval = settings.network.optimizer_step_interval
    processes = count_of(plan.world_size, "process")
    if plan.grouped:
        LOG.info("%s", describe_groups(plan.turns(1), settings.lengths))
        minibatches = count_of(plan.world_size * interval, "minibatch")
        described = f"{minibatches} per optimiser step ({processes}, {interval} each)"
        LOG.info("%s, %d steps in epoch 1", described, plan.steps_per_epoch())
    else:
        described = f"{minibatch} per process and minibatch, {processes}"
        LOG.info(
            "%d utterances per optimiser step (%s, %s), %d steps per epoch",
            plan.window_size,
            described,
            count_of(interval, "minibatch"),
            plan.steps_per_epoch(),
        )
    turns = trainer.orders.describe()
    if turns:
        LOG.info("recipe.sampler = %r: %s", settings.recipe.sampler, turns)


def build_clip_loader(run: Run, utterances: TrialList, lengths: np.ndarray) -> BatchLoader:
    """Return the loader of the training clips, with the augmentation of the settings."""
    settings = run.settings
    channels = channels_of(settings, run.folders.recipe)
    references = None
    if run.networks.takes_references:
        references = References(utterances, settings.sad, settings.audio, channels)
    clips = TrainingClips(
        utterances=utterances,
        lengths=lengths,
        clip_size=settings.network.train_clip_size,
        rawboost=settings.rawboost,
        sad=settings.sad,
        seed=settings.recipe.seed,
        position=settings.network.clip_position,
        augmentation=run.augmentation,
        vocoders=open_vocoders(settings, run.folders.recipe),
        mixup=find_mixup(settings, len(utterances)),
        audio=settings.audio,
        channels=channels,
        references=references,
    )
    if settings.augmentation.chain:
        LOG.info("training examples are augmented: %s", clips.augmentation.describe())
    if clips.mixup is not None:
        LOG.info("%g of the training examples are mixed with another one", clips.mixup.probability)
    workers = settings.computing.network_dataloader_workers
    return BatchLoader(clips, workers, run.world, stop=run.stop)


def build_clip_frames(
    run: Run, network: nn.Module, utterances: TrialList, lengths: np.ndarray
) -> ClipFrames | None:
    """Return the frame labels of the clips for a frame-level head; None without one.

    Raises:
        UsageError, AsdfError: as `ClipFrames`.
    """
    hop = frame_hop(network)
    if hop is None or not run.settings.localisation.enabled:
        return None
    frames = ClipFrames(utterances, lengths, run.settings, hop, run.augmentation)
    count = frames.count_partial()
    LOG.info(
        "frames of %d samples are scored and trained; %d of %d spoofs are spoofed in parts only",
        hop,
        count,
        (utterances.labels == 0).sum(),
    )
    if not count:
        LOG.warning(
            "warning: no training utterance is spoofed in parts (column spoofed_s): all frames of "
            "a recording then have one label, and the frame-level head cannot learn to locate "
            "spoofs"
        )
    return frames


def build_feature_loader(
    run: Run, network: nn.Module, clips: BatchLoader, utterances: TrialList, lengths: np.ndarray
) -> BatchLoader:
    """Return a loader of the front end's features of `clips`, computed now or earlier.

    Raises:
        UsageError: bf16 is requested on a GPU without it.
    """
    assert isinstance(network, SSLDetector)  # the step has checked it
    settings = run.settings
    world = run.world
    requested = settings.front_end.cache_precision
    try:
        precision = agree_on_precision(requested, world)
    except UsageError as error:
        raise UsageError(
            f"front_end.cache_precision = {requested!r}: {world.device} computes {requested} only "
            "by emulation, slower than fp32. It needs compute capability 8.0: set 'fp32'."
        ) from error
    if requested != "fp32":
        reason = f": {precision.reason}" if precision.reason else ""
        LOG.info("features are computed in %s%s", precision.name, reason)
    work = FeaturePass(
        network.front_end_features,
        clips,
        utterances,
        settings.network,
        world,
        run.stop,
        precision.computing,
    )
    front_end = feature_identity(network)
    identity = world.run_on_main(
        lambda: identity_of(front_end, utterances, lengths, settings, precision=precision.name)
    )
    features = work.fill(FeatureCache(run.folders.features, identity, work.shape()))
    workers = settings.computing.network_dataloader_workers
    return BatchLoader(features, workers, world, stop=run.stop)
