"""Checks of settings against each other, once all layers are applied.

Invariant: only the final values of a config are compared, since a later layer may resolve a
contradiction in an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    rules = [_of_computing, _of_tuning, _of_recordings]
    # 'auto' captures only where nothing speaks against it.
    if sections.computing.cuda_graphs is True:
        rules.append(_of_graphs)
    # Rules about training do not stop a command that only scores.
    if sections.recipe.execute_stage(1):
        rules += [_of_ends, _of_losses]
        if sections.lengths.minibatch_s is not None:
            rules.append(_of_lengths)
        if sections.localisation.enabled:
            rules.append(_of_trained_frames)
        if sections.front_end.cache_features:
            rules.append(_of_caching)
    for rule in rules:
        for sentence in rule(sections):
            first, *relation, second = sentence.split()
            yield Contradiction(first, " ".join(relation), second)


# Each rule yields what the user reads: the first setting, the relation, and the second one.
def _of_computing(sections: Sections) -> Iterator[str]:
    computing, front_end = sections.computing, sections.front_end
    gpu_ids = computing.gpu_ids
    if computing.use_gpu and gpu_ids is not None and len(gpu_ids) < computing.processes:
        yield "computing.processes is more than the number of GPUs in computing.gpu_ids"
    # Not with 'layers', where the graph is of one layer, whichever others are left out.
    if computing.compile is True and front_end.layer_drop:
        yield (
            "computing.compile needs a fixed graph and cannot be combined with front_end.layer_drop"
        )
    if computing.compile == "layers" and sections.lora.rank:
        yield (
            "computing.compile would compile each layer separately and cannot be combined with "
            "lora.rank"
        )
    if computing.compile and computing.norms == "bf16":
        yield (
            "computing.compile fuses norms with what follows them itself and cannot be combined "
            "with computing.norms"
        )
    if computing.compile and computing.deterministic:
        yield (
            "computing.deterministic excludes kernels chosen by measured speed, as by "
            "computing.compile"
        )


def _of_tuning(sections: Sections) -> Iterator[str]:
    """Yield contradictions among the settings for the trained parts of the front end."""
    front_end = sections.front_end
    if front_end.frozen and front_end.unfreeze_after_epochs is not None:
        yield (
            "front_end.frozen never trains the front end and contradicts "
            "front_end.unfreeze_after_epochs"
        )
    nothing = "front_end.frozen trains nothing of the front end and contradicts"
    if front_end.frozen and front_end.trained_parts is not None:
        yield f"{nothing} front_end.trained_parts"
    if front_end.frozen and sections.lora.rank:
        yield f"{nothing} lora.rank"
    if sections.network.save_only_trained is True and front_end.weights in (None, RANDOM):
        yield (
            "network.save_only_trained omits parameters that pretrained weights restore, and there "
            "are none in front_end.weights"
        )


def _of_graphs(sections: Sections) -> Iterator[str]:
    """Yield settings that prevent the passes over a minibatch from being captured."""
    computing, front_end, lora = sections.computing, sections.front_end, sections.lora
    graphs = "computing.cuda_graphs"
    if computing.compile:
        yield (
            f"{graphs} captures the network's operations, not the compiled ones of "
            "computing.compile"
        )
    if computing.processes > 1:
        yield f"{graphs} requires one process and cannot be combined with computing.processes"
    # Masks and dropped layers are drawn on the host.
    repeated = f"{graphs} repeats the same operations in each step, which vary with"
    for name in ("layer_drop", "time_mask_proportion", "channel_mask_proportion"):
        if getattr(front_end, name):
            yield f"{repeated} front_end.{name}"
    # Recomputed layers restore a random state that a graph does not capture.
    recomputed = f"{graphs} cannot recompute layers that draw random numbers, as with"
    if front_end.gradient_checkpointing and front_end.dropout:
        yield f"{recomputed} front_end.dropout"
    if front_end.gradient_checkpointing and lora.rank and lora.dropout:
        yield f"{recomputed} lora.dropout"


def _of_recordings(sections: Sections) -> Iterator[str]:
    """Yield contradictions of the audio, its augmentation, and the labels of frames."""
    augmentation = sections.augmentation
    for part, source in CHAIN_NEEDS.items():
        if part in augmentation.chain and not getattr(augmentation, source):
            yield (
                f"augmentation.chain includes '{part}', which cannot be used with "
                f"augmentation.{source}"
            )
    # The label of a frame comes from the samples in it. Augmentation that moves speech in time
    # would make it unknown and is refused, in scoring as well.
    has_frames = sections.localisation.enabled
    if has_frames and sections.network.max_cut_proportion:
        yield (
            f"network.max_cut_proportion cuts off the last frames of recordings and contradicts "
            f"{_ENABLED}"
        )
    if has_frames and sections.sad.mode != "off":
        yield (
            "sad.mode removes parts of recordings, which shifts frames in time, and contradicts "
            f"{_ENABLED}"
        )
    # Vocoders and augmentation change training examples alone.
    trains = sections.recipe.execute_stage(1)
    has_vocoders = trains and bool(sections.vocoding.vocoders)
    if sections.audio.sample_rate != USUAL_AUDIO.sample_rate:
        of_16_khz = {_ENABLED: has_frames, "vocoding.vocoders": has_vocoders}
        for name in (name for name, is_set in of_16_khz.items() if is_set):
            yield f"{name} requires 16 kHz and contradicts audio.sample_rate"
    if sections.audio.channels == "all":
        of_one_channel = {
            "vocoding.vocoders": has_vocoders,
            "augmentation.chain": trains and bool(augmentation.chain),
            "rawboost.enabled": trains and sections.rawboost.enabled,
            "lengths.minibatch_s": trains and sections.lengths.minibatch_s is not None,
        }
        for name in (name for name, is_set in of_one_channel.items() if is_set):
            yield f"{name} requires one channel and contradicts audio.channels"


def _of_ends(sections: Sections) -> Iterator[str]:
    """Yield a front end, a back end or a length that the network's class does not accept."""
    network_class = sections.network.network_class
    back_end = sections.back_end.back_end_class
    if not has_front_end(network_class) and sections.front_end.front_end_class is not None:
        yield (
            "network.network_class has no front end and cannot be combined with "
            "front_end.front_end_class"
        )
    if network_class == COMPOSED and back_end is None:
        yield (
            "network.network_class takes its back end from another setting, which is not set: "
            "back_end.back_end_class"
        )
    # A network of the user's own may have any use for the setting.
    has_own = network_class.startswith("asdf.networks.") and network_class != COMPOSED
    if has_own and back_end is not None:
        yield (
            f"network.network_class has its own back end ({COMPOSED} takes any) and cannot be "
            "combined with back_end.back_end_class"
        )
    class_path = fact(network_class, "back_end_class") or BACK_ENDS.get(back_end or "", back_end)
    one_length = fact(class_path or "", "one_length")
    samples = attrgetter(one_length)(sections) if one_length else None
    if samples not in (None, sections.network.train_clip_size):
        yield (
            f"network.network_class takes clips of {one_length} = {samples} only, not of "
            "network.train_clip_size"
        )


def _of_losses(sections: Sections) -> Iterator[str]:
    network, loss = sections.network, sections.loss
    plain = "network.score needs probabilities learnt by plain cross_entropy, not by"
    if network.score == "llr" and network.loss != "cross_entropy":
        yield f"{plain} network.loss"
    elif network.score == "llr" and loss.label_smoothing:
        yield f"{plain} loss.label_smoothing"
    if sections.source.column is None and network.validation_metric in SOURCE_METRICS:
        yield "network.validation_metric measures source tracing, which is off with source.column"
    has_terms = sections.localisation.enabled or bool(network.tasks)
    if sections.source.column is None and not (loss.detection_weight or has_terms):
        yield "loss.detection_weight leaves nothing to learn without source.column"
    if not sections.vocoding.vocoders and not sections.vocoding.corpus_spoofs:
        yield (
            "vocoding.corpus_spoofs leaves no spoofs to train on, since no vocoder is named in "
            "vocoding.vocoders"
        )


def _of_lengths(sections: Sections) -> Iterator[str]:
    """Yield settings that minibatches of varying length cannot be combined with."""
    contradicting = {
        "network.global_minibatch_size": sections.network.global_minibatch_size is not None,
        "computing.compile": bool(sections.computing.compile),
        "computing.cuda_graphs": sections.computing.cuda_graphs is True,
        "front_end.cache_features": sections.front_end.cache_features,
        "rawboost.on_device": sections.rawboost.enabled and sections.rawboost.on_device,
        "augmentation.mixup_probability": sections.augmentation.mixup_probability > 0,
        _ENABLED: sections.localisation.enabled,
    }
    for name, contradicts in contradicting.items():
        if contradicts:
            yield f"{name} requires clips of one length and contradicts lengths.minibatch_s"


def _of_trained_frames(sections: Sections) -> Iterator[str]:
    """Yield contradictions of `localisation.enabled` in training."""
    network_class, back_end = sections.network.network_class, sections.back_end.back_end_class
    no_frames = "outputs no frames to score one by one"
    if network_class != COMPOSED and not keeps_time(network_class):
        yield (
            f"network.network_class {no_frames} ({that_keep_time()} do, behind "
            f"asdf.networks.ComposedDetector), and contradicts {_ENABLED}"
        )
    if back_end is not None and not keeps_time(BACK_ENDS.get(back_end, back_end)):
        yield (
            f"back_end.back_end_class {no_frames} ({that_keep_time()} do), and contradicts "
            f"{_ENABLED}"
        )
    if "silence" in sections.augmentation.chain:
        yield (
            "augmentation.chain includes 'silence', which trims lengths that are only known when a "
            f"clip is read, and contradicts {_ENABLED}"
        )
    if sections.network.score == "llr":
        yield (
            "network.score needs the proportion of bona fide examples in training, which depends "
            f"on the drawn crops with {_ENABLED}"
        )


def _of_caching(sections: Sections) -> Iterator[str]:
    """Yield settings that change the front end's features of an utterance between epochs."""
    front_end, augmentation = sections.front_end, sections.augmentation
    no_learning = "front_end.cache_features needs a front end that is never trained"
    no_augmentation = "front_end.cache_features needs clips without augmentation"
    if not front_end.frozen:
        yield f"{no_learning} (front_end.frozen = True), not front_end.frozen"
    if front_end.unfreeze_after_epochs is not None:
        name = "front_end.unfreeze_after_epochs"
        yield f"{no_learning} ({name} = None), not {name}"
    if sections.network.clip_position != "start":
        yield (
            "front_end.cache_features needs the same clip of an utterance in every epoch "
            "(network.clip_position = 'start'), not network.clip_position"
        )
    if sections.rawboost.enabled and sections.rawboost.algo:
        yield f"{no_augmentation} (rawboost.enabled = False), not rawboost.enabled"
    if augmentation.chain:
        yield f"{no_augmentation} (augmentation.chain = ()), not augmentation.chain"
    if not set(sections.vocoding.vocoders) <= set(VOCODERS):
        yield (
            "front_end.cache_features only saves copies made by built-in vocoders, whose code is "
            "known, not by vocoding.vocoders"
        )
    if augmentation.mixup_probability:
        name = "augmentation.mixup_probability"
        yield f"{no_augmentation} ({name} = 0), not {name}"
