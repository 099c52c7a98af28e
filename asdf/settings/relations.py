"""Whether the settings fit each other, once all layers are applied.

Invariant: only values that some config really ends up with are compared. A layer in between may
well be contradictory, as a later one may put it right.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from asdf.settings.contradiction import Contradiction
from asdf.settings.frame_heads import frames_contradictions, frames_training_contradictions
from asdf.settings.sections import BACK_ENDS, SOURCE_METRICS, VOCODERS, Sections

# The first of each two may not be above the second.
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
    ("recipe.start_stage", "recipe.end_stage"),
)

# What each part of the augmentation chain takes its material from.
CHAIN_NEEDS = {
    "noise": "noise_folders",
    "reverberation": "reverberation_folders",
    "codec": "codecs",
}
# Networks whose ends settings choose, and those that have no front end; their classes know it as
# well.
COMPOSED = "asdf.networks.ComposedDetector"
WITHOUT_FRONT_END = ("asdf.networks.AASIST", "asdf.networks.AASIST_L", "asdf.networks.RawNet2")
# Networks and back ends that take clips of one length, and the setting of that length. Their
# classes know it as well, but to ask them would import torch, for which --list and --explain do
# not wait.
CLIP_SETTINGS = {
    "asdf.networks.SSL_SLS": "back_end.sls_samples",
    "asdf.networks.SLSBackEnd": "back_end.sls_samples",
}


def contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield the pairs of settings that contradict each other."""
    for low, high in ORDERED:
        lower = attrgetter(low)(sections)
        upper = attrgetter(high)(sections)
        if lower is not None and upper is not None and lower > upper:
            yield Contradiction(low, "is above", high)
    yield from _computing_contradictions(sections)
    if sections.computing.shard_network:
        yield from _sharding_contradictions(sections)
    if sections.computing.cuda_graphs:
        yield from _graph_contradictions(sections)
    yield from _chain_contradictions(sections)
    if sections.localisation.enabled:
        yield from frames_contradictions(sections)
    # What only training minds does not keep a command that only scores from running.
    if sections.recipe.execute_stage(1):
        yield from _end_contradictions(sections)
        yield from _clip_contradictions(sections)
        yield from _score_contradictions(sections)
        yield from _source_contradictions(sections)
        yield from _vocoding_contradictions(sections)
        if sections.localisation.enabled:
            yield from frames_training_contradictions(sections)
        if sections.front_end.cache_features:
            yield from _cache_contradictions(sections)


def _computing_contradictions(sections: Sections) -> Iterator[Contradiction]:
    computing = sections.computing
    front_end = sections.front_end
    gpu_ids = computing.gpu_ids
    if computing.use_gpu and gpu_ids is not None and len(gpu_ids) < computing.processes:
        relation = "is more than the number of GPUs in"
        yield Contradiction("computing.processes", relation, "computing.gpu_ids")
    if front_end.frozen and front_end.unfreeze_after_epochs is not None:
        relation = "never trains the front end and contradicts"
        yield Contradiction("front_end.frozen", relation, "front_end.unfreeze_after_epochs")
    yield from _tuning_contradictions(sections)
    if computing.compile is True and front_end.layer_drop:
        relation = "needs a fixed graph and cannot be combined with"
        yield Contradiction("computing.compile", relation, "front_end.layer_drop")
    if computing.compile == "layers" and sections.lora.rank:
        relation = "would compile each layer for itself and cannot be combined with"
        yield Contradiction("computing.compile", relation, "lora.rank")
    if computing.compile and computing.norms == "bf16":
        relation = "joins norms with what follows them by itself and cannot be combined with"
        yield Contradiction("computing.compile", relation, "computing.norms")
    if computing.compile and computing.deterministic:
        relation = "allows no kernels chosen by measuring their speed, as they are with"
        yield Contradiction("computing.deterministic", relation, "computing.compile")


def _tuning_contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield what contradicts the choice of what is trained of the front end."""
    front_end = sections.front_end
    adapter = sections.adapter
    frozen = "front_end.frozen"
    relation = "trains nothing of the front end and contradicts"
    if front_end.frozen and front_end.trained_parts is not None:
        yield Contradiction(frozen, relation, "front_end.trained_parts")
    if front_end.frozen and sections.lora.rank:
        yield Contradiction(frozen, relation, "lora.rank")
    if front_end.frozen and adapter.width and adapter.positions != ("after",):
        relation = "leaves no adapters but those of adapter.positions = ('after',), and contradicts"
        yield Contradiction(frozen, relation, "adapter.width")
    if sections.network.save_only_trained is True and front_end.weights is None:
        relation = "leaves out what pretrained weights give again, and there are none in"
        yield Contradiction("network.save_only_trained", relation, "front_end.weights")


def _sharding_contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield what a network that is divided over the processes cannot be trained with."""
    computing = sections.computing
    relations = {}
    if computing.compile:
        relations["computing.compile"] = (
            "gathers each layer just before it is computed and cannot be combined with"
        )
    if computing.precision == "fp16":
        relations["computing.precision"] = (
            "adds up gradients without a loss scale ('bf16' and 'fp32' need none) and cannot be "
            "combined with"
        )
    if computing.backend == "mpi" or (computing.backend == "gloo" and computing.use_gpu):
        relations["computing.backend"] = (
            "gathers by nccl on GPUs and by gloo on CPUs, as 'auto' chooses, and cannot be "
            "combined with"
        )
    if computing.norms == "bf16":
        relations["computing.norms"] = (
            "gathers weights in the format of their layers and cannot be combined with"
        )
    if sections.front_end.layer_drop:
        relations["front_end.layer_drop"] = (
            "needs all processes to compute the same layers and cannot be combined with"
        )
    if sections.front_end.cache_features:
        relations["front_end.cache_features"] = (
            "divides the front end, which training does not compute with"
        )
    for name, relation in relations.items():
        yield Contradiction("computing.shard_network", relation, name)


def _graph_contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield what the passes over a minibatch cannot be captured with."""
    graphs = "computing.cuda_graphs"
    front_end = sections.front_end
    if sections.computing.compile:
        relation = "captures the network's operations, not the compiled ones of"
        yield Contradiction(graphs, relation, "computing.compile")
    if sections.computing.processes > 1:
        relation = "is for one process and cannot be combined with"
        yield Contradiction(graphs, relation, "computing.processes")
    # Masks and dropped layers are drawn on the host.
    for name in ("layer_drop", "time_mask_proportion", "channel_mask_proportion"):
        if getattr(front_end, name):
            relation = "repeats the same operations in each step, which vary with"
            yield Contradiction(graphs, relation, f"front_end.{name}")
    # What is recomputed draws as before from a state of which a graph has no copy.
    relation = "cannot recompute layers that draw random numbers, as they do with"
    if front_end.gradient_checkpointing and front_end.dropout:
        yield Contradiction(graphs, relation, "front_end.dropout")
    if front_end.gradient_checkpointing and sections.lora.rank and sections.lora.dropout:
        yield Contradiction(graphs, relation, "lora.dropout")


def _chain_contradictions(sections: Sections) -> Iterator[Contradiction]:
    augmentation = sections.augmentation
    for part, source in CHAIN_NEEDS.items():
        if part in augmentation.chain and not getattr(augmentation, source):
            relation = f"names '{part}', which needs more than"
            yield Contradiction("augmentation.chain", relation, f"augmentation.{source}")


def _vocoding_contradictions(sections: Sections) -> Iterator[Contradiction]:
    if not sections.vocoding.vocoders and not sections.vocoding.corpus_spoofs:
        relation = "leaves no spoofs to train on, since no vocoder is named in"
        yield Contradiction("vocoding.corpus_spoofs", relation, "vocoding.vocoders")


def _source_contradictions(sections: Sections) -> Iterator[Contradiction]:
    network = sections.network
    if sections.source.column is None and network.validation_metric in SOURCE_METRICS:
        relation = "is of traced sources, and none are traced by"
        yield Contradiction("network.validation_metric", relation, "source.column")
    if sections.source.column is None and not (
        sections.loss.detection_weight or sections.localisation.enabled
    ):
        relation = "leaves nothing to learn without"
        yield Contradiction("loss.detection_weight", relation, "source.column")


def _score_contradictions(sections: Sections) -> Iterator[Contradiction]:
    if sections.network.score != "llr":
        return
    relation = "needs a network that learns probabilities by cross_entropy, as it does not by"
    if sections.network.loss != "cross_entropy":
        yield Contradiction("network.score", relation, "network.loss")
    elif sections.loss.label_smoothing:
        yield Contradiction("network.score", relation, "loss.label_smoothing")


def _end_contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield a front end or a back end that the network's class would not take."""
    network_class = sections.network.network_class
    if network_class in WITHOUT_FRONT_END and sections.front_end.front_end_class is not None:
        relation = "has no front end, and so cannot have that of"
        yield Contradiction("network.network_class", relation, "front_end.front_end_class")
    back_end_class = sections.back_end.back_end_class
    if network_class == COMPOSED:
        if back_end_class is None:
            relation = "has the back end that is named in another setting, which names none:"
            yield Contradiction("network.network_class", relation, "back_end.back_end_class")
    elif back_end_class is not None and network_class.startswith("asdf.networks."):
        relation = f"has a back end of its own ({COMPOSED} has any), and so cannot have that of"
        yield Contradiction("network.network_class", relation, "back_end.back_end_class")


def _clip_contradictions(sections: Sections) -> Iterator[Contradiction]:
    network = sections.network
    named = sections.back_end.back_end_class
    back_end = BACK_ENDS.get(named, named) if named else ""
    length_setting = CLIP_SETTINGS.get(network.network_class) or CLIP_SETTINGS.get(back_end)
    if length_setting is None:
        return
    samples = attrgetter(length_setting)(sections)
    if network.train_clip_size != samples:
        relation = f"takes clips of {length_setting} = {samples} only, not of"
        yield Contradiction("network.network_class", relation, "network.train_clip_size")


def _cache_contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield what makes the front end's features of an utterance change between epochs."""
    cache = "front_end.cache_features"
    front_end = sections.front_end
    rawboost = sections.rawboost
    no_learning = "needs a front end that never learns"
    no_augmentation = "needs clips without augmentation"
    if not front_end.frozen:
        relation = f"{no_learning} (front_end.frozen = True), not"
        yield Contradiction(cache, relation, "front_end.frozen")
    if front_end.unfreeze_after_epochs is not None:
        relation = f"{no_learning} (front_end.unfreeze_after_epochs = None), not"
        yield Contradiction(cache, relation, "front_end.unfreeze_after_epochs")
    if sections.network.clip_position != "start":
        same_clip = "needs the same clip of an utterance in every epoch"
        relation = f"{same_clip} (network.clip_position = 'start'), not"
        yield Contradiction(cache, relation, "network.clip_position")
    if rawboost.enabled and rawboost.algo:
        relation = f"{no_augmentation} (rawboost.enabled = False), not"
        yield Contradiction(cache, relation, "rawboost.enabled")
    if sections.augmentation.chain:
        relation = f"{no_augmentation} (augmentation.chain = ()), not"
        yield Contradiction(cache, relation, "augmentation.chain")
    if not set(sections.vocoding.vocoders) <= set(VOCODERS):
        relation = "saves copies by the project's vocoders alone, whose code is known, not by"
        yield Contradiction(cache, relation, "vocoding.vocoders")
    if sections.augmentation.mixup_probability:
        relation = f"{no_augmentation} (augmentation.mixup_probability = 0), not"
        yield Contradiction(cache, relation, "augmentation.mixup_probability")
