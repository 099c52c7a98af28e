"""Checks of settings against each other, once all layers are applied.

Invariant: only the final values of a config are compared, since a later layer may resolve a
contradiction in an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from asdf.settings.class_files import fact
from asdf.settings.front_end_values import RANDOM
from asdf.settings.sections import BACK_ENDS, SOURCE_METRICS, USUAL_AUDIO, VOCODERS, Sections


class Contradiction(NamedTuple):
    """Two settings that contradict each other; a message reads `first relation second`."""

    first: str
    relation: str
    second: str


_ENABLED = "localisation.enabled"
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
COMPOSED = "asdf.networks.ComposedDetector"
"""The network whose front end and back end are settings."""


def keeps_time(class_path: str) -> bool:
    """Whether one of the project's networks or back ends has frames; True for other classes."""
    class_path = fact(class_path, "back_end_class") or class_path
    return None not in (fact(class_path, "frame_step", 1), fact(class_path, "frame_hop", 1))


def that_keep_time() -> str:
    """Return the short names of the back ends that have frames, for messages."""
    return ", ".join(name for name, path in BACK_ENDS.items() if keeps_time(path))


def has_front_end(network_class: str) -> bool:
    """Whether a network of the project has a front end; True for other classes."""
    return fact(network_class, "front_end_class", "any") is not None


def contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield the pairs of settings that contradict each other."""
    for low, high in ORDERED:
        lower = attrgetter(low)(sections)
        upper = attrgetter(high)(sections)
        if lower is not None and upper is not None and lower > upper:
            yield Contradiction(low, "is above", high)
    rules = [_rules(sections), _rules_of_recordings(sections)]
    # Rules about training do not stop a command that only scores.
    if sections.recipe.execute_stage(1):
        rules += [_rules_of_training(sections), _rules_of_networks(sections)]
    for holds, sentence in chain.from_iterable(rules):
        if holds:
            first, *relation, second = sentence.split()
            yield Contradiction(first, " ".join(relation), second)


# A rule is a condition, and what the user reads if it holds: a setting, the relation, and another
# setting.
def _rules(sections: Sections) -> Iterator[tuple[object, str]]:
    """Yield the rules of computing, and of the trained parts of the front end."""
    computing, front_end, lora = sections.computing, sections.front_end, sections.lora
    compiled = "computing.compile"
    gpus = None if computing.gpu_ids is None else len(computing.gpu_ids)
    few = computing.use_gpu and gpus is not None and gpus < computing.processes
    yield few, "computing.processes is more than the number of GPUs in computing.gpu_ids"
    # Not with 'layers', where the graph is of one layer, whichever others are left out.
    fixed = f"{compiled} needs a fixed graph and cannot be combined with front_end.layer_drop"
    yield computing.compile is True and front_end.layer_drop, fixed
    each = f"{compiled} would compile each layer separately and cannot be combined with lora.rank"
    yield computing.compile == "layers" and lora.rank, each
    fuses = "fuses norms with what follows them itself and cannot be combined with computing.norms"
    yield computing.compile and computing.norms == "bf16", f"{compiled} {fuses}"
    excludes = "computing.deterministic excludes kernels chosen by measured speed, as by"
    yield computing.compile and computing.deterministic, f"{excludes} {compiled}"

    never = "front_end.frozen never trains the front end and contradicts"
    late = front_end.unfreeze_after_epochs is not None
    yield front_end.frozen and late, f"{never} front_end.unfreeze_after_epochs"
    nothing = "front_end.frozen trains nothing of the front end and contradicts"
    parts = front_end.trained_parts is not None
    yield front_end.frozen and parts, f"{nothing} front_end.trained_parts"
    yield front_end.frozen and lora.rank, f"{nothing} lora.rank"
    omits = "omits parameters that pretrained weights restore, and there are none in"
    yield (
        sections.network.save_only_trained is True and front_end.weights in (None, RANDOM),
        f"network.save_only_trained {omits} front_end.weights",
    )

    # 'auto' captures only where nothing speaks against it.
    captures, graphs = computing.cuda_graphs is True, "computing.cuda_graphs"
    operations = f"{graphs} captures the network's operations, not the compiled ones of {compiled}"
    yield captures and computing.compile, operations
    # Masks and dropped layers are drawn on the host.
    repeated = f"{graphs} repeats the same operations in each step, which vary with"
    for name in ("layer_drop", "time_mask_proportion", "channel_mask_proportion"):
        yield captures and getattr(front_end, name), f"{repeated} front_end.{name}"
    # Recomputed layers restore a random state that a graph does not capture.
    recomputes = captures and front_end.gradient_checkpointing
    recomputed = f"{graphs} cannot recompute layers that draw random numbers, as with"
    yield recomputes and front_end.dropout, f"{recomputed} front_end.dropout"
    yield recomputes and lora.rank and lora.dropout, f"{recomputed} lora.dropout"


def _rules_of_recordings(sections: Sections) -> Iterator[tuple[object, str]]:
    """Yield the rules of the audio, its augmentation, and the labels of frames."""
    augmentation = sections.augmentation
    for part, source in CHAIN_NEEDS.items():
        lacks = part in augmentation.chain and not getattr(augmentation, source)
        cannot = f"includes '{part}', which cannot be used with augmentation.{source}"
        yield lacks, f"augmentation.chain {cannot}"
    # The label of a frame comes from the samples in it. Augmentation that moves speech in time
    # would make it unknown and is refused, in scoring as well.
    has_frames = sections.localisation.enabled
    cuts = "network.max_cut_proportion cuts off the last frames of recordings and contradicts"
    yield has_frames and sections.network.max_cut_proportion, f"{cuts} {_ENABLED}"
    shifts = "sad.mode removes parts of recordings, which shifts frames in time, and contradicts"
    yield has_frames and sections.sad.mode != "off", f"{shifts} {_ENABLED}"
    # Vocoders and augmentation change training examples alone.
    trains = sections.recipe.execute_stage(1)
    vocodes = trains and sections.vocoding.vocoders
    resamples = sections.audio.sample_rate != USUAL_AUDIO.sample_rate
    for name, is_set in ((_ENABLED, has_frames), ("vocoding.vocoders", vocodes)):
        yield resamples and is_set, f"{name} requires 16 kHz and contradicts audio.sample_rate"
    of_one_channel = {
        "vocoding.vocoders": vocodes,
        "augmentation.chain": trains and augmentation.chain,
        "rawboost.enabled": trains and sections.rawboost.enabled,
        "lengths.minibatch_s": trains and sections.lengths.minibatch_s is not None,
    }
    several = sections.audio.channels == "all"
    for name, is_set in of_one_channel.items():
        yield several and is_set, f"{name} requires one channel and contradicts audio.channels"


def _rules_of_training(sections: Sections) -> Iterator[tuple[object, str]]:
    """Yield the rules of losses, of minibatches of varying length, and of cached features."""
    network, loss, front_end = sections.network, sections.loss, sections.front_end
    augmentation, vocoding = sections.augmentation, sections.vocoding
    has_frames = sections.localisation.enabled
    plain = "network.score needs probabilities learnt by plain cross_entropy, not by"
    is_ratio, is_plain = network.score == "llr", network.loss == "cross_entropy"
    yield is_ratio and not is_plain, f"{plain} network.loss"
    yield is_ratio and is_plain and loss.label_smoothing, f"{plain} loss.label_smoothing"
    yield is_ratio and augmentation.mixup_probability, f"{plain} augmentation.mixup_probability"
    no_sources = sections.source.column is None
    off = "network.validation_metric measures source tracing, which is off with source.column"
    yield no_sources and network.validation_metric in SOURCE_METRICS, off
    learns = loss.detection_weight or has_frames or network.tasks
    empty = "loss.detection_weight leaves nothing to learn without source.column"
    yield no_sources and not learns, empty
    no_spoofs = "leaves no spoofs to train on, since no vocoder is named in vocoding.vocoders"
    no_vocoder = not vocoding.vocoders and not vocoding.corpus_spoofs
    yield no_vocoder, f"vocoding.corpus_spoofs {no_spoofs}"

    varies = sections.lengths.minibatch_s is not None
    of_one_length = {
        "network.global_minibatch_size": network.global_minibatch_size is not None,
        "computing.compile": sections.computing.compile,
        "computing.cuda_graphs": sections.computing.cuda_graphs is True,
        "front_end.cache_features": front_end.cache_features,
        "rawboost.on_device": sections.rawboost.enabled and sections.rawboost.on_device,
        "augmentation.mixup_probability": augmentation.mixup_probability > 0,
        _ENABLED: has_frames,
    }
    one_length = "requires clips of one length and contradicts lengths.minibatch_s"
    for name, is_set in of_one_length.items():
        yield varies and is_set, f"{name} {one_length}"

    caches = front_end.cache_features
    needs = "front_end.cache_features needs"
    conditions: dict[str, dict[str, object]] = {
        "a front end that is never trained": {
            "front_end.frozen = True": not front_end.frozen,
            "front_end.unfreeze_after_epochs = None": front_end.unfreeze_after_epochs is not None,
        },
        "the same clip of an utterance in every epoch": {
            "network.clip_position = 'start'": network.clip_position != "start"
        },
        "clips without augmentation": {
            "rawboost.enabled = False": sections.rawboost.enabled and sections.rawboost.algo,
            "augmentation.chain = ()": augmentation.chain,
            "augmentation.mixup_probability = 0": augmentation.mixup_probability,
        },
    }
    for what, settings in conditions.items():
        for needed, differs in settings.items():
            name = needed.partition(" ")[0]
            yield caches and differs, f"{needs} {what} ({needed}), not {name}"
    known = "only saves copies made by built-in vocoders, whose code is known, not by"
    own_vocoders = not set(vocoding.vocoders) <= set(VOCODERS)
    yield caches and own_vocoders, f"front_end.cache_features {known} vocoding.vocoders"


def _rules_of_networks(sections: Sections) -> Iterator[tuple[object, str]]:
    """Yield the rules of what a network's class accepts, and of frames that are trained."""
    network_class, back_end = sections.network.network_class, sections.back_end.back_end_class
    none = "network.network_class has no front end and cannot be combined with"
    given = sections.front_end.front_end_class is not None
    yield not has_front_end(network_class) and given, f"{none} front_end.front_end_class"
    takes = "takes its back end from another setting, which is not set: back_end.back_end_class"
    composed = network_class == COMPOSED
    yield composed and back_end is None, f"network.network_class {takes}"
    # A network of the user's own may have any use for the setting.
    has_own = network_class.startswith("asdf.networks.") and not composed
    own = f"has its own back end ({COMPOSED} takes any) and cannot be combined with"
    both = has_own and back_end is not None
    yield both, f"network.network_class {own} back_end.back_end_class"
    class_path = fact(network_class, "back_end_class") or BACK_ENDS.get(back_end or "", back_end)
    one_length = fact(class_path or "", "one_length")
    samples = attrgetter(one_length)(sections) if one_length else None
    yield (
        samples not in (None, sections.network.train_clip_size),
        f"network.network_class takes clips of {one_length} = {samples} only, not of "
        "network.train_clip_size",
    )

    if not sections.localisation.enabled:
        return
    no_frames = f"outputs no frames to score one by one ({that_keep_time()} do"
    behind = f"{no_frames}, behind {COMPOSED}), and contradicts {_ENABLED}"
    yield not composed and not keeps_time(network_class), f"network.network_class {behind}"
    timeless = back_end is not None and not keeps_time(BACK_ENDS.get(back_end, back_end))
    yield timeless, f"back_end.back_end_class {no_frames}), and contradicts {_ENABLED}"
    trims = "trims lengths that are only known when a clip is read, and contradicts"
    silence = f"augmentation.chain includes 'silence', which {trims} {_ENABLED}"
    yield "silence" in sections.augmentation.chain, silence
    proportion = "the proportion of bona fide examples in training, which depends on the crops"
    is_ratio = sections.network.score == "llr"
    yield is_ratio, f"network.score needs {proportion} drawn with {_ENABLED}"
