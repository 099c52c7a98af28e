"""Training input: clips of recordings, or the front end's features of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.errors import UsageError
from asdf.recipe.run import Run
from asdf.runs.log import LOG

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.data.clip_frames import ClipFrames
    from asdf.data.loaders import BatchLoader
    from asdf.distributed.world import World
    from asdf.scoring.computing import ScoringPrecision
    from asdf.settings.sections import Sections
    from asdf.trials.trial_list import TrialList


def build_clip_loader(run: Run, utterances: TrialList, lengths: np.ndarray) -> BatchLoader:
    """Return the loader of the training clips, with the augmentation of the settings."""
    from asdf.data.batches import find_mixup
    from asdf.data.datasets import References, TrainingClips
    from asdf.data.loaders import BatchLoader
    from asdf.networks.build import channels_of

    settings = run.settings
    channels = channels_of(settings, run.recipe_folder)
    references = None
    if run.takes_references:
        references = References(utterances, settings.sad, settings.audio, channels)
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
    run: Run,
    network: nn.Module,
    utterances: TrialList,
    lengths: np.ndarray,
) -> ClipFrames | None:
    """Return the frame labels of the clips for a frame-level head; None without one.

    Raises:
        UsageError, AsdfError: as `ClipFrames`.
    """
    from asdf.data.clip_frames import ClipFrames
    from asdf.networks import frame_hop

    hop = frame_hop(network)
    if hop is None or not run.settings.localisation.enabled:
        return None
    frames = ClipFrames(utterances, lengths, run.settings, hop, run.augmentation())
    partial = frames.count_partial()
    LOG.info(
        "frames of %d samples are scored and trained; %d of %d spoofs are spoofed in parts only",
        hop,
        partial,
        (utterances.labels == 0).sum(),
    )
    if not partial:
        LOG.warning(
            "warning: no training utterance is spoofed in parts (column spoofed_s): all frames of "
            "a recording then have one label, and the frame-level head cannot learn to locate "
            "spoofs"
        )
    return frames


def _agree_on_cache_precision(settings: Sections, world: World) -> ScoringPrecision:
    """Return the arithmetic of cached features, the same on all processes.

    Raises:
        UsageError: bf16 is requested on a GPU without it.
    """
    from asdf.scoring.agreement import agree_on_precision

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
    return precision


def build_feature_loader(
    run: Run,
    network: nn.Module,
    clips: BatchLoader,
    utterances: TrialList,
    lengths: np.ndarray,
) -> BatchLoader:
    """Return a loader of the front end's features of `clips`, computed now or earlier."""
    from asdf.data.feature_cache import FeatureCache, FeaturePass, identity_of
    from asdf.data.loaders import BatchLoader
    from asdf.networks import SSLDetector
    from asdf.networks.split import feature_identity

    assert isinstance(network, SSLDetector)  # the step has checked it
    settings = run.settings
    world = run.world
    precision = _agree_on_cache_precision(settings, world)
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
