"""Stage 1: the starting point of training, its clips or features, and the trainer.

Invariant: no network of an earlier training is overwritten. Every rank checks this before anything
else.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from torch import nn

from asdf.audio.augmentation import Chain
from asdf.audio.vocoding import open_vocoders
from asdf.checkpoint.network_reading import fill_network
from asdf.data.batches import find_mixup
from asdf.data.datasets import ClipFrames, References, TrainingClips
from asdf.data.feature_cache import CachedFeatures, FeatureCache, FeaturePass, identity_of
from asdf.data.loaders import BatchLoader
from asdf.data.sampler_orders import build_sampler, describe_copies, describe_groups, find_groups
from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.errors import AsdfError, UsageError
from asdf.networks import SSLDetector, frame_hop, summary
from asdf.networks.build import channels_of, front_end_summary
from asdf.networks.interface import takes_references
from asdf.networks.output_check import check_outputs
from asdf.networks.split import feature_identity
from asdf.recipe.lists import Measured, RunLists
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
            "Use 'auto' to resume from the newest, choose another paths.system_folder, or move "
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


def train(run: Run, network: nn.Module, measured: Measured) -> None:
    """Train `network` from where `network.resume_epoch` says, and validate it meanwhile."""
    settings, world, folders = run.settings, run.world, run.folders
    utterances, lengths = measured
    start = find_starting_point(settings.network.resume_epoch, folders.layout)
    if world.size > 1 and settings.computing.sync_batch_norm:
        network = synchronise_batch_norm(network)
    LOG.info("%s: %s", settings.network.network_class, summary(network))
    if settings.front_end.trained_parts is not None or settings.lora.rank:
        LOG.info("front end: %s", front_end_summary(network))
    step = Step(
        network,
        utterances,
        settings,
        world,
        from_features=settings.front_end.cache_features,
        folder=folders.recipe,
        frames=build_clip_frames(settings, network, measured, run.augmentation),
    )
    clips = build_clips(settings, folders.recipe, network, measured, run.augmentation)

    def validate(trained: nn.Module, name: NetworkName) -> ValidationResult | None:
        loss = loss_on_trials(step.objective, trained, settings)
        return score_validation_sets(run, trained, name.file, loss)

    workers = settings.computing.network_dataloader_workers
    trainer = Trainer(
        step=step,
        loader=BatchLoader(clips, workers, world, stop=run.stop),
        layout=folders.layout,
        validate=validate,
        stop=run.stop,
        callbacks=run.callbacks(),
        sampler=build_sampler(settings, utterances, folders.recipe),
        groups=find_groups(settings, lengths),
    )
    resume_training(trainer, start, run.lists)
    copies = utterances.count_vocoded()
    if copies:
        LOG.info("of the training utterances %s", describe_copies(utterances))
        record = {"vocoded_copies": copies}
        world.run_on_main(partial(update_record, folders.layout.environment, record))
    if not trainer.finished():
        # Checked before hours of training.
        with step.whole_network() as whole:
            world.run_on_main(partial(check_outputs, whole, settings.network, world.device))
        if settings.front_end.cache_features:
            # Only now has the front end the weights whose features are saved.
            features = build_features(trainer, lengths, folders.features)
            trainer.loader = BatchLoader(features, workers, world, stop=run.stop)
    _log_plan(trainer)
    trainer.run()
    LOG.info("training ended: %s", trainer.finished())
    count = settings.network.average_best_networks
    if count:
        metric = settings.network.validation_metric
        evaluations = trainer.progress.evaluations
        world.run_on_main(partial(average_networks, folders.layout, evaluations, count, metric))


def resume_training(trainer: Trainer, start: str | None, lists: RunLists) -> None:
    """Resume from `start`, the result of `find_starting_point`."""
    layout, world = trainer.layout, trainer.world
    # Only the main rank looks: on a shared disk the ranks may see different newest files.
    if start == "auto":
        path = world.run_on_main(partial(newest_checkpoint, layout.networks))
    else:
        path = layout.networks / start if start else None
    if path is None:
        record_training(layout, world, lists, 0)
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
    evaluations = mark_evaluations(layout, world, lists, lists.validated())
    for sentence in describe_stale(evaluations):
        if world.is_main:
            LOG.warning("warning: %s", sentence)
    trainer.resume(checkpoint, evaluations)
    if start == "auto" and path.name != RESUME.file:
        # This file was left by a run that was killed while writing the newer checkpoint.
        world.run_on_main(partial(layout.network_file(RESUME).unlink, missing_ok=True))
    progress = trainer.progress
    LOG.info("going on from %s: epoch %d, step %d", path.name, progress.epochs, progress.step)
    record_training(layout, world, lists, progress.step)
    # The next step sets the rate again.
    step, network = trainer.step, trainer.settings.network
    now = step.update.set_rate(progress, len(trainer.plan.order(1)))
    groups = (checkpoint.optimiser_state or {}).get("param_groups", ())
    was = max((group["lr"] for group in groups), default=now)
    rises = now > was and progress.step >= network.warmup_steps
    # A longer training makes the rate rise.
    if rises and step.update.schedule.function in (linear, cosine):
        words = (
            "the schedule %r is stretched to the new length: the rate goes from %.3g back to %.3g"
        )
        LOG.info(words, network.schedule, was, now)


def _log_plan(trainer: Trainer) -> None:
    """Log the number format of training, and the composition of an optimiser step."""
    LOG.info("%s", trainer.step.precision.reason)
    settings, plan = trainer.settings, trainer.plan
    interval = settings.network.optimizer_step_interval
    processes = count_of(plan.world_size, "process")
    if plan.grouped:
        LOG.info("%s", describe_groups(plan.turns(1), settings.lengths))
        minibatches = count_of(plan.world_size * interval, "minibatch")
        described = f"{minibatches} per optimiser step ({processes}, {interval} each)"
        LOG.info("%s, %d steps in epoch 1", described, plan.steps_per_epoch())
    else:
        described = f"{plan.minibatch_size} per process and minibatch, {processes}"
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


def build_clips(
    settings: Sections, folder: Path, network: nn.Module, measured: Measured, augmentation: Chain
) -> TrainingClips:
    """Return the training clips, with the augmentation of the settings."""
    utterances, lengths = measured
    channels = channels_of(settings, folder)
    references = None
    if takes_references(network):
        references = References(utterances, settings.sad, settings.audio, channels)
    clips = TrainingClips(
        utterances=utterances,
        lengths=lengths,
        clip_size=settings.network.train_clip_size,
        rawboost=settings.rawboost,
        sad=settings.sad,
        seed=settings.recipe.seed,
        position=settings.network.clip_position,
        augmentation=augmentation,
        vocoders=open_vocoders(settings, folder),
        mixup=find_mixup(settings, len(utterances)),
        audio=settings.audio,
        channels=channels,
        references=references,
    )
    if settings.augmentation.chain:
        LOG.info("training examples are augmented: %s", clips.augmentation.describe())
    if clips.mixup is not None:
        LOG.info("%g of the training examples are mixed with another one", clips.mixup.probability)
    return clips


def build_clip_frames(
    settings: Sections, network: nn.Module, measured: Measured, augmentation: Chain
) -> ClipFrames | None:
    """Return the frame labels of the clips for a frame-level head; None without one."""
    hop = frame_hop(network)
    if hop is None or not settings.localisation.enabled:
        return None
    frames = ClipFrames(*measured, settings, hop, augmentation)
    count = frames.count_partial()
    LOG.info(
        "frames of %d samples are scored and trained; %d of %d spoofs are spoofed in parts only",
        hop,
        count,
        (measured.utterances.labels == 0).sum(),
    )
    if not count:
        LOG.warning(
            "warning: no training utterance is spoofed in parts (column spoofed_s): all frames of "
            "a recording then have one label, and the frame-level head cannot learn to locate "
            "spoofs"
        )
    return frames


def build_features(trainer: Trainer, lengths: np.ndarray, folder: Path) -> CachedFeatures:
    """Return the front end's features of the trainer's clips, computed now or earlier.

    Raises:
        UsageError: bf16 is requested on a GPU without it.
    """
    network, settings, world = trainer.step.network, trainer.settings, trainer.world
    assert isinstance(network, SSLDetector)  # the step has checked it
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
        trainer.loader,
        trainer.utterances,
        settings.network,
        world,
        trainer.stop,
        precision.computing,
    )
    front_end = feature_identity(network)
    identity = world.run_on_main(
        lambda: identity_of(
            front_end, trainer.utterances, lengths, settings, precision=precision.name
        )
    )
    return work.fill(FeatureCache(folder, identity, work.shape()))
