"""Whether the settings fit each other, once all layers are applied.

Invariant: only values that some config really ends up with are compared. A layer in between may well be
contradictory, as a later one may put it right.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from asdf.settings.sections import Sections

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

# What each part of the chain takes its material from.
CHAIN_NEEDS = {
    "noise": "noise_folders",
    "reverberation": "reverberation_folders",
    "codec": "codecs",
}


def contradictions(sections: Sections) -> Iterator[tuple[str, str, str]]:
    """The pairs of settings that contradict each other: their two names, and what is wrong between them."""
    for low, high in ORDERED:
        lower, upper = attrgetter(low)(sections), attrgetter(high)(sections)
        if lower is not None and upper is not None and lower > upper:
            yield low, high, "is above"
    computing = sections.computing
    if (
        computing.use_gpu
        and computing.gpu_ids is not None
        and len(computing.gpu_ids) < computing.processes
    ):
        yield "computing.processes", "computing.gpu_ids", "is more than the GPUs in"
    front_end = sections.front_end
    if front_end.frozen and front_end.unfreeze_after_epochs is not None:
        yield "front_end.frozen", "front_end.unfreeze_after_epochs", "leaves nothing to"
    if computing.compile and front_end.layer_drop:
        yield (
            "computing.compile",
            "front_end.layer_drop",
            "asks for one fixed graph, which there is none with",
        )
    if computing.compile and computing.deterministic:
        yield (
            "computing.deterministic",
            "computing.compile",
            "takes the same algorithms each time, not those that were fastest when tried, as does",
        )
    if computing.shard_network:
        yield from _not_divided_with(sections)
    if computing.cuda_graphs:
        for name, relation in _not_capturable(sections):
            yield "computing.cuda_graphs", name, relation
    for part, needs in CHAIN_NEEDS.items():
        if part in sections.augmentation.chain and not getattr(sections.augmentation, needs):
            yield (
                "augmentation.chain",
                f"augmentation.{needs}",
                f"names '{part}', which finds nothing in",
            )
    network, needed = sections.network, sections.back_end.sls_samples
    trains_sls = network.network_class == "asdf.networks.SSL_SLS" and sections.recipe.execute_stage(
        1
    )
    if trains_sls and network.train_clip_size != needed:
        relation = f"learns from clips of back_end.sls_samples = {needed} only, not of"
        yield "network.network_class", "network.train_clip_size", relation
    if front_end.cache_features and sections.recipe.execute_stage(1):
        for name, value, why in _not_repeatable(sections):
            yield "front_end.cache_features", name, f"needs {why} ({name} = {value}), not"


def _not_divided_with(sections: Sections) -> Iterator[tuple[str, str, str]]:
    """What a network that is divided over the processes cannot be trained with."""
    computing, front_end, divided = (
        sections.computing,
        sections.front_end,
        "computing.shard_network",
    )
    if computing.compile:
        yield (
            divided,
            "computing.compile",
            "gathers a layer before it is computed, which is not for",
        )
    if computing.precision == "fp16":
        why = (
            "adds up gradients without a loss scale ('bf16' and 'fp32' need none), and so not with"
        )
        yield divided, "computing.precision", why
    if computing.backend == "mpi" or (computing.backend == "gloo" and computing.use_gpu):
        why = "gathers by nccl on GPUs and by gloo on CPUs, as 'auto' chooses them, so not by"
        yield divided, "computing.backend", why
    if front_end.layer_drop:
        why = "has all processes compute each layer together, so none drops one of its own by"
        yield divided, "front_end.layer_drop", why
    if front_end.cache_features:
        why = "divides a front end that training computes, and it computes none with"
        yield divided, "front_end.cache_features", why


def _not_capturable(sections: Sections) -> Iterator[tuple[str, str]]:
    """The settings that the passes over a minibatch cannot be captured with, and why."""
    front_end = sections.front_end
    if sections.computing.compile:
        yield "computing.compile", "asks for its own operations, not those of"
    if sections.computing.processes > 1:
        yield "computing.processes", "is for one process, unlike"
    # Masks and dropped layers are drawn on the host.
    for name in ("layer_drop", "time_mask_proportion", "channel_mask_proportion"):
        if getattr(front_end, name):
            yield f"front_end.{name}", "asks for the same operations in each step, unlike"
    # What is recomputed draws as before from a state of which a graph has no copy.
    if front_end.gradient_checkpointing and front_end.dropout:
        yield "front_end.dropout", "cannot recompute layers that draw with"


def _not_repeatable(sections: Sections) -> Iterator[tuple[str, str, str]]:
    """What makes the front end's features of an utterance change between epochs: setting, value needed, and why."""
    front_end, network, rawboost = sections.front_end, sections.network, sections.rawboost
    if not front_end.frozen:
        yield "front_end.frozen", "True", "a front end that never learns"
    if front_end.unfreeze_after_epochs is not None:
        yield "front_end.unfreeze_after_epochs", "None", "a front end that never learns"
    if network.clip_position != "start":
        yield "network.clip_position", "'start'", "the same clip of an utterance in every epoch"
    if rawboost.enabled and rawboost.algo:
        yield "rawboost.enabled", "False", "clips without augmentation"
    if sections.augmentation.chain:
        yield "augmentation.chain", "()", "clips without augmentation"
