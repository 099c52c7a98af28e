"""Checks of settings against each other, once all layers are applied.

Invariant: only the final values of a config are compared, since a later layer may resolve a
contradiction in an earlier one. Each rule takes only the sections that it compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from asdf.ports import provided
from asdf.settings.front_end_values import RANDOM
from asdf.settings.sections import (
    BACK_ENDS,
    SOURCE_METRICS,
    USUAL_AUDIO,
    VOCODERS,
    Augmentation,
    BackEnd,
    Computing,
    FrontEnd,
    Lora,
    Loss,
    Network,
    RawBoost,
    Sections,
    Source,
    Vocoding,
)


class Contradiction(NamedTuple):
    """Two settings that contradict each other; a message reads `first relation second`."""

    first: str
    relation: str
    second: str


_ENABLED = "localisation.enabled"
# The project's back ends without a time axis; their classes know this as well, but importing them
# would import torch.
_WITHOUT_TIME = (
    "aasist",
    "aasist_l",
    "sls",
    "mlp",
    "map_lcnn",
    *provided("TRAITS").get("without_time", ()),
)
_NETWORKS_WITHOUT_TIME = (
    "asdf.networks.AASIST",
    "asdf.networks.AASIST_L",
    "asdf.networks.RawNet2",
    "asdf.networks.SSL_AASIST",
    "asdf.networks.SSL_AASIST_L",
    "asdf.networks.SSL_MapLCNN",
    "asdf.networks.SSL_SLS",
    "asdf.networks.SSL_SUPERBAASIST",
    *provided("TRAITS").get("networks_without_time", ()),
)
THAT_KEEP_TIME = ", ".join(name for name in BACK_ENDS if name not in _WITHOUT_TIME)

# In each pair, the first setting may not exceed the second.
ORDERED = (
    ("rawboost.minF", "rawboost.maxF"),
    ("rawboost.minBW", "rawboost.maxBW"),
    ("rawboost.minCoeff", "rawboost.maxCoeff"),
    ("rawboost.minG", "rawboost.maxG"),
    ("rawboost.minBiasLinNonLin", "rawboost.maxBiasLinNonLin"),
    ("rawboost.SNRmin", "rawboost.SNRmax"),
    ("augmentation.speed_min", "augmentation.speed_max"),
    ("augmentation.noise_snr_min_db", "augmentation.noise_snr_max_db"),
    ("augmentation.bandwidth_min_hz", "augmentation.bandwidth_max_hz"),
    (
        "network.min_train_utterance_length_in_samples",
        "network.max_train_utterance_length_in_samples",
    ),
    (
        "network.min_evaluation_utterance_length_in_samples",
        "network.max_evaluation_utterance_length_in_samples",
    ),
    ("network.min_learning_rate", "network.initial_learning_rate"),
    ("lengths.min_crop_s", "lengths.max_crop_s"),
    ("lengths.max_crop_s", "lengths.minibatch_s"),  # a minibatch has room for one crop
    ("recipe.start_stage", "recipe.end_stage"),
)

# Source of the material of each part of the augmentation chain.
CHAIN_NEEDS = {
    "noise": "noise_folders",
    "reverberation": "reverberation_folders",
    "codec": "codecs",
}
# Networks whose front end and back end are settings, and networks without a front end; their
# classes know this as well.
COMPOSED = "asdf.networks.ComposedDetector"
WITHOUT_FRONT_END = (
    "asdf.networks.AASIST",
    "asdf.networks.AASIST_L",
    "asdf.networks.RawNet2",
    *provided("TRAITS").get("networks_without_front_end", ()),
)
# Networks and back ends that only take clips of `back_end.sls_samples`. Their classes know this as
# well, but importing them would import torch, which slows down --list and --explain.
OF_ONE_LENGTH = ("asdf.networks.SSL_SLS", "asdf.networks.SLSBackEnd")


def contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield the pairs of settings that contradict each other."""
    for low, high in ORDERED:
        lower = attrgetter(low)(sections)
        upper = attrgetter(high)(sections)
        if lower is not None and upper is not None and lower > upper:
            yield Contradiction(low, "is above", high)
    network = sections.network
    computing = sections.computing
    front_end = sections.front_end
    has_frames = sections.localisation.enabled
    yield from _of_computing(computing, front_end)
    yield from _of_tuning(front_end, sections.lora, network)
    yield from _of_compiling(computing, front_end, sections.lora)
    # 'auto' captures only where nothing speaks against it.
    if computing.cuda_graphs is True:
        yield from _of_graphs(computing, front_end, sections.lora)
    yield from _of_chain(sections.augmentation)
    # The label of a frame comes from the samples in it. Augmentation that moves speech in time
    # would make it unknown and is refused, in scoring as well.
    if has_frames and network.max_cut_proportion:
        relation = "cuts off the last frames of recordings and contradicts"
        yield Contradiction("network.max_cut_proportion", relation, _ENABLED)
    if has_frames and sections.sad.mode != "off":
        relation = "removes parts of recordings, which shifts frames in time, and contradicts"
        yield Contradiction("sad.mode", relation, _ENABLED)
    yield from _of_audio(sections)
    # Rules about training do not stop a command that only scores.
    if not sections.recipe.execute_stage(1):
        return
    yield from _of_training(sections)


def _of_training(sections: Sections) -> Iterator[Contradiction]:
    """Yield contradictions that concern training alone."""
    network = sections.network
    computing = sections.computing
    front_end = sections.front_end
    augmentation = sections.augmentation
    has_frames = sections.localisation.enabled
    yield from _of_ends(network, front_end, sections.back_end)
    named = sections.back_end.back_end_class or ""
    classes = (network.network_class, BACK_ENDS.get(named, named))
    samples = sections.back_end.sls_samples
    if set(classes) & set(OF_ONE_LENGTH) and network.train_clip_size != samples:
        relation = f"takes clips of back_end.sls_samples = {samples} only, not of"
        yield Contradiction("network.network_class", relation, "network.train_clip_size")
    yield from _of_scores(network, sections.loss)
    has_terms = has_frames or bool(network.tasks)
    yield from _of_sources(network, sections.source, sections.loss, has_terms)
    if not sections.vocoding.vocoders and not sections.vocoding.corpus_spoofs:
        relation = "leaves no spoofs to train on, since no vocoder is named in"
        yield Contradiction("vocoding.corpus_spoofs", relation, "vocoding.vocoders")
    if sections.lengths.minibatch_s is not None:
        yield from _of_lengths(
            network, computing, front_end, sections.rawboost, augmentation, has_frames
        )
    if has_frames:
        yield from _of_trained_frames(network, sections.back_end, augmentation)
    if front_end.cache_features:
        yield from _of_caching(
            front_end, network, sections.rawboost, augmentation, sections.vocoding
        )


def _of_audio(sections: Sections) -> Iterator[Contradiction]:
    """Yield settings that require 16 kHz or mono audio but would get other audio."""
    audio = sections.audio
    # Vocoders and augmentation change training examples alone.
    trains = sections.recipe.execute_stage(1)
    has_vocoders = trains and bool(sections.vocoding.vocoders)
    of_16_khz = {
        _ENABLED: sections.localisation.enabled,
        "vocoding.vocoders": has_vocoders,
    }
    of_one_channel = {
        "vocoding.vocoders": has_vocoders,
        "augmentation.chain": trains and bool(sections.augmentation.chain),
        "rawboost.enabled": trains and sections.rawboost.enabled,
        "lengths.minibatch_s": trains and sections.lengths.minibatch_s is not None,
    }
    for name, contradicts in of_16_khz.items():
        if contradicts and audio.sample_rate != USUAL_AUDIO.sample_rate:
            yield Contradiction(name, "requires 16 kHz and contradicts", "audio.sample_rate")
    for name, contradicts in of_one_channel.items():
        if contradicts and audio.channels == "all":
            yield Contradiction(name, "requires one channel and contradicts", "audio.channels")


def _of_lengths(
    network: Network,
    computing: Computing,
    front_end: FrontEnd,
    rawboost: RawBoost,
    augmentation: Augmentation,
    has_frames: bool,
) -> Iterator[Contradiction]:
    """Yield settings that minibatches of varying length cannot be combined with."""
    takes_one = "requires clips of one length and contradicts"
    contradicting = {
        "network.global_minibatch_size": network.global_minibatch_size is not None,
        "computing.compile": bool(computing.compile),
        "computing.cuda_graphs": computing.cuda_graphs is True,
        "front_end.cache_features": front_end.cache_features,
        "rawboost.on_device": rawboost.enabled and rawboost.on_device,
        "augmentation.mixup_probability": augmentation.mixup_probability > 0,
        _ENABLED: has_frames,
    }
    for name, contradicts in contradicting.items():
        if contradicts:
            yield Contradiction(name, takes_one, "lengths.minibatch_s")


def _of_chain(augmentation: Augmentation) -> Iterator[Contradiction]:
    for part, source in CHAIN_NEEDS.items():
        if part in augmentation.chain and not getattr(augmentation, source):
            relation = f"includes '{part}', which cannot be used with"
            yield Contradiction("augmentation.chain", relation, f"augmentation.{source}")


def _of_trained_frames(
    network: Network, back_end: BackEnd, augmentation: Augmentation
) -> Iterator[Contradiction]:
    """Yield contradictions of `localisation.enabled` in training."""
    reason = f"outputs no frames to score one by one ({THAT_KEEP_TIME} do)"
    if network.network_class in _NETWORKS_WITHOUT_TIME:
        relation = f"{reason[:-1]}, behind asdf.networks.ComposedDetector), and contradicts"
        yield Contradiction("network.network_class", relation, _ENABLED)
    # A setting may hold the short name or the class path.
    without_time = {*_WITHOUT_TIME, *(BACK_ENDS[name] for name in _WITHOUT_TIME)}
    if back_end.back_end_class in without_time:
        yield Contradiction("back_end.back_end_class", f"{reason}, and contradicts", _ENABLED)
    if "silence" in augmentation.chain:
        relation = (
            "includes 'silence', which trims lengths that are only known when a clip is read, and "
            "contradicts"
        )
        yield Contradiction("augmentation.chain", relation, _ENABLED)
    if network.score == "llr":
        relation = (
            "needs the proportion of bona fide examples in training, which depends on the drawn "
            "crops with"
        )
        yield Contradiction("network.score", relation, _ENABLED)


def _of_computing(computing: Computing, front_end: FrontEnd) -> Iterator[Contradiction]:
    gpu_ids = computing.gpu_ids
    if computing.use_gpu and gpu_ids is not None and len(gpu_ids) < computing.processes:
        relation = "is more than the number of GPUs in"
        yield Contradiction("computing.processes", relation, "computing.gpu_ids")
    if front_end.frozen and front_end.unfreeze_after_epochs is not None:
        relation = "never trains the front end and contradicts"
        yield Contradiction("front_end.frozen", relation, "front_end.unfreeze_after_epochs")


def _of_tuning(front_end: FrontEnd, lora: Lora, network: Network) -> Iterator[Contradiction]:
    """Yield contradictions among the settings for the trained parts of the front end."""
    frozen = "front_end.frozen"
    relation = "trains nothing of the front end and contradicts"
    if front_end.frozen and front_end.trained_parts is not None:
        yield Contradiction(frozen, relation, "front_end.trained_parts")
    if front_end.frozen and lora.rank:
        yield Contradiction(frozen, relation, "lora.rank")
    if network.save_only_trained is True and front_end.weights in (None, RANDOM):
        relation = "omits parameters that pretrained weights restore, and there are none in"
        yield Contradiction("network.save_only_trained", relation, "front_end.weights")


def _of_compiling(computing: Computing, front_end: FrontEnd, lora: Lora) -> Iterator[Contradiction]:
    # Not with 'layers', where the graph is of one layer, whichever others are left out.
    if computing.compile is True and front_end.layer_drop:
        relation = "needs a fixed graph and cannot be combined with"
        yield Contradiction("computing.compile", relation, "front_end.layer_drop")
    if computing.compile == "layers" and lora.rank:
        relation = "would compile each layer separately and cannot be combined with"
        yield Contradiction("computing.compile", relation, "lora.rank")
    if computing.compile and computing.norms == "bf16":
        relation = "fuses norms with what follows them itself and cannot be combined with"
        yield Contradiction("computing.compile", relation, "computing.norms")
    if computing.compile and computing.deterministic:
        relation = "excludes kernels chosen by measured speed, as by"
        yield Contradiction("computing.deterministic", relation, "computing.compile")


def _of_graphs(computing: Computing, front_end: FrontEnd, lora: Lora) -> Iterator[Contradiction]:
    """Yield settings that prevent the passes over a minibatch from being captured."""
    graphs = "computing.cuda_graphs"
    if computing.compile:
        relation = "captures the network's operations, not the compiled ones of"
        yield Contradiction(graphs, relation, "computing.compile")
    if computing.processes > 1:
        relation = "requires one process and cannot be combined with"
        yield Contradiction(graphs, relation, "computing.processes")
    # Masks and dropped layers are drawn on the host.
    for name in ("layer_drop", "time_mask_proportion", "channel_mask_proportion"):
        if getattr(front_end, name):
            relation = "repeats the same operations in each step, which vary with"
            yield Contradiction(graphs, relation, f"front_end.{name}")
    # Recomputed layers restore a random state that a graph does not capture.
    relation = "cannot recompute layers that draw random numbers, as with"
    if front_end.gradient_checkpointing and front_end.dropout:
        yield Contradiction(graphs, relation, "front_end.dropout")
    if front_end.gradient_checkpointing and lora.rank and lora.dropout:
        yield Contradiction(graphs, relation, "lora.dropout")


def _of_sources(
    network: Network, source: Source, loss: Loss, has_terms: bool
) -> Iterator[Contradiction]:
    if source.column is not None:
        return
    if network.validation_metric in SOURCE_METRICS:
        relation = "measures source tracing, which is off with"
        yield Contradiction("network.validation_metric", relation, "source.column")
    if not (loss.detection_weight or has_terms):
        relation = "leaves nothing to learn without"
        yield Contradiction("loss.detection_weight", relation, "source.column")


def _of_scores(network: Network, loss: Loss) -> Iterator[Contradiction]:
    if network.score != "llr":
        return
    relation = "needs probabilities learnt by plain cross_entropy, not by"
    if network.loss != "cross_entropy":
        yield Contradiction("network.score", relation, "network.loss")
    elif loss.label_smoothing:
        yield Contradiction("network.score", relation, "loss.label_smoothing")


def _of_ends(network: Network, front_end: FrontEnd, back_end: BackEnd) -> Iterator[Contradiction]:
    """Yield a front end or a back end that the network's class does not accept."""
    network_class = network.network_class
    if network_class in WITHOUT_FRONT_END and front_end.front_end_class is not None:
        relation = "has no front end and cannot be combined with"
        yield Contradiction("network.network_class", relation, "front_end.front_end_class")
    if network_class == COMPOSED:
        if back_end.back_end_class is None:
            relation = "takes its back end from another setting, which is not set:"
            yield Contradiction("network.network_class", relation, "back_end.back_end_class")
    # A network of the user's own may have any use for the setting.
    elif back_end.back_end_class is not None and network_class.startswith("asdf.networks."):
        relation = f"has its own back end ({COMPOSED} takes any) and cannot be combined with"
        yield Contradiction("network.network_class", relation, "back_end.back_end_class")


def _of_caching(
    front_end: FrontEnd,
    network: Network,
    rawboost: RawBoost,
    augmentation: Augmentation,
    vocoding: Vocoding,
) -> Iterator[Contradiction]:
    """Yield settings that change the front end's features of an utterance between epochs."""
    cache = "front_end.cache_features"
    no_learning = "needs a front end that is never trained"
    no_augmentation = "needs clips without augmentation"
    if not front_end.frozen:
        relation = f"{no_learning} (front_end.frozen = True), not"
        yield Contradiction(cache, relation, "front_end.frozen")
    if front_end.unfreeze_after_epochs is not None:
        relation = f"{no_learning} (front_end.unfreeze_after_epochs = None), not"
        yield Contradiction(cache, relation, "front_end.unfreeze_after_epochs")
    if network.clip_position != "start":
        same_clip = "needs the same clip of an utterance in every epoch"
        relation = f"{same_clip} (network.clip_position = 'start'), not"
        yield Contradiction(cache, relation, "network.clip_position")
    if rawboost.enabled and rawboost.algo:
        relation = f"{no_augmentation} (rawboost.enabled = False), not"
        yield Contradiction(cache, relation, "rawboost.enabled")
    if augmentation.chain:
        relation = f"{no_augmentation} (augmentation.chain = ()), not"
        yield Contradiction(cache, relation, "augmentation.chain")
    if not set(vocoding.vocoders) <= set(VOCODERS):
        relation = "only saves copies made by built-in vocoders, whose code is known, not by"
        yield Contradiction(cache, relation, "vocoding.vocoders")
    if augmentation.mixup_probability:
        relation = f"{no_augmentation} (augmentation.mixup_probability = 0), not"
        yield Contradiction(cache, relation, "augmentation.mixup_probability")
