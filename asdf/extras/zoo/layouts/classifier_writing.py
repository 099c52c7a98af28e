"""Networks of ASDF as folders of transformers' audio classifiers.

Invariant: a written folder is read back as the same network, and transformers computes the
network's logits for it. ASDF's own encoders are written under their names; those of transformers by
transformers itself. A network that transformers would score differently is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from asdf.checkpoint.network_reading import CONFIG, MARK, write_safetensors
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.classifier_folder import (
    CLASSIFIERS,
    FRONT_END,
    LAYER_WEIGHTS,
    OUR_OWN,
    WHISPER,
    WINDOW_SAMPLES,
)
from asdf.extras.zoo.networks.classes import ClassSizes, SSL_Classifier
from asdf.facts import SAMPLE_RATE
from asdf.interchange.hugging_face import PREPROCESSOR, SIZES, WEIGHTS, hugging_face_names
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.transformers_config import EXTRACTOR, TYPE, read_config
from asdf.networks.front_ends.transformers_front_end import INSTALL, TransformersFrontEnd
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.runs.files import write_text
from asdf.settings.sections import Sections

_BACK_END = "back_end."
_SUM = "front_end.layer_sum.weights"
_MASK = "front_end.masking.embedding"
_MASK_NAME = "masked_spec_embed"


def write_classifier(folder: Path, network: nn.Module, settings: Sections) -> None:
    """Write a folder that `AutoModelForAudioClassification.from_pretrained` loads.

    Raises:
        UsageError: transformers is needed but not installed.
        AsdfError: the network does not fit this layout, transformers would score it differently, or
            the folder cannot be written.
    """
    if not isinstance(network, SSL_Classifier):
        raise AsdfError(
            f"{type(network).__name__} cannot be written as a transformers audio classifier (an "
            "encoder, a projection, the mean over time and classes): SSL_Classifier."
        )
    front_end = network.front_end
    if front_end.layers < front_end.encoder_layers:
        raise AsdfError(
            f"transformers' audio classifiers read the last layer, or all; this network reads "
            f"layer {front_end.layers} of {front_end.encoder_layers} (front_end.layer)."
        )
    is_weighted = settings.front_end.layer == "weighted"
    if is_weighted and next(front_end.final_norm_parameters(), None) is not None:
        raise AsdfError(
            "front_end.layer = 'weighted' with an encoder that ends with a norm: versions of "
            "transformers disagree on whether the last layer is summed before or after that norm, "
            "so its scores would depend on the version. Choose another format of `python -m asdf "
            "export`."
        )
    sizes = ClassSizes.of(settings)
    names = sizes.classifier_classes
    head = {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        "classifier_proj_size": sizes.classifier_projection,
        "use_weighted_layer_sum": is_weighted,
    }
    if isinstance(front_end, Wav2Vec2FrontEnd):
        _write_own(folder, network, front_end.architecture, sizes.classifier_family, head)
    elif isinstance(front_end, TransformersFrontEnd):
        _write_by_transformers(folder, network, front_end, head)
    else:
        raise AsdfError(
            f"the front end {type(front_end).__name__} is not an encoder of transformers, which "
            "its audio classifiers need."
        )
    extractor = json.dumps(_extractor_settings(front_end), indent=2)
    write_text(folder / PREPROCESSOR, extractor + "\n")


def _write_own(
    folder: Path,
    network: SSL_Classifier,
    architecture: Architecture,
    family: str,
    head: Mapping[str, Any],
) -> None:
    """Write a folder with an encoder of ours.

    Args:
        family: Model type that it was read from, which is written if the encoder is of that type.
    """
    if architecture.relative_positions:
        family = "wavlm"
    elif family not in OUR_OWN or family == "wavlm":
        family = "wav2vec2"
    layers = {}
    encoder = {}
    for name, tensor in network.state_dict().items():
        if name.startswith(FRONT_END):
            encoder[name.removeprefix(FRONT_END)] = tensor
        else:
            layers[_head_name(name, family)] = tensor
    for name, tensor in hugging_face_names(encoder).items():
        layers[f"{_prefix_of(family)}{name}"] = tensor
    channels, kernels, strides = zip(*architecture.conv_layers, strict=True)
    config = {
        "architectures": [CLASSIFIERS[family]],
        "model_type": family,
        "conv_dim": list(channels),
        "conv_kernel": list(kernels),
        "conv_stride": list(strides),
        "num_feat_extract_layers": len(channels),
        "feat_extract_norm": architecture.extractor_mode.removesuffix("_norm"),
        **{theirs: getattr(architecture, ours) for ours, theirs in SIZES.items()},
        # ASDF's own settings control the masks of training.
        "apply_spec_augment": False,
        "mask_time_prob": 0.0,
        "mask_feature_prob": 0.0,
    }
    if architecture.relative_positions:
        buckets, distance = architecture.relative_positions
        config |= {"num_buckets": buckets, "max_bucket_distance": distance}
    # The weights first: a folder counts as a network once it has its configuration.
    write_safetensors(folder / WEIGHTS[0], layers, MARK)
    write_text(folder / CONFIG, json.dumps({**config, **head}, indent=2) + "\n")


def _head_name(name: str, family: str) -> str:
    """Return transformers' name of a layer outside of the encoder."""
    if name == _SUM:
        return LAYER_WEIGHTS
    if name == _MASK:
        return f"{_prefix_of(family)}{_MASK_NAME}"
    if name.startswith(_BACK_END):
        return name.removeprefix(_BACK_END)
    raise AsdfError(f"transformers' audio classifiers have no layer for {name}.")


def _prefix_of(family: str) -> str:
    return family.replace("-", "_") + "."


def _write_by_transformers(
    folder: Path, network: SSL_Classifier, front_end: TransformersFrontEnd, head: Mapping[str, Any]
) -> None:
    try:
        from transformers import AutoConfig, AutoModelForAudioClassification
    except ImportError as error:
        raise AsdfError(f"{INSTALL} ({error}).") from error
    values = read_config(front_end.architecture_setting)
    values.pop(EXTRACTOR, None)
    config = AutoConfig.for_model(**{**values, **head})
    model = AutoModelForAudioClassification.from_config(config, trust_remote_code=False).eval()
    names = model.state_dict().keys()
    state = network.state_dict()
    first = next(name.removeprefix(FRONT_END) for name in state if name.startswith(FRONT_END))
    # Its prefix of the encoder, found by the first layer that both have.
    prefix = next(name.removesuffix(first) for name in names if f".{name}".endswith(f".{first}"))
    layers = {}
    for name, tensor in state.items():
        if name.startswith(FRONT_END):
            layers[prefix + name.removeprefix(FRONT_END)] = tensor
        elif name != _MASK:
            layers[_head_name(name, "")] = tensor
    # The vector of masked frames may be missing.
    differ = {name for name in names ^ layers.keys() if not name.endswith(_MASK_NAME)}
    if differ:
        raise AsdfError(
            f"transformers' {type(model).__name__} has other layers than this network: "
            f"{min(differ)}. Use the version of transformers that read it."
        )
    model.load_state_dict(layers, strict=False)
    folder.mkdir(parents=True, exist_ok=True)
    # Move its files into place one by one, each atomically.
    with TemporaryDirectory(dir=folder, prefix=".writing.") as temporary:
        model.save_pretrained(temporary, max_shard_size="1000GB")
        # In reverse order config.json is last: with it the folder counts as a network.
        for path in sorted(Path(temporary).iterdir(), reverse=True):
            path.replace(folder / path.name)


def _extractor_settings(front_end: FrontEnd) -> dict[str, Any]:
    """Return the preprocessor_config.json: how recordings are prepared for the network."""
    if isinstance(front_end, TransformersFrontEnd):
        values = read_config(front_end.architecture_setting)
        recorded = values.get(EXTRACTOR)
        if recorded:
            return {**recorded, "sampling_rate": SAMPLE_RATE}
        if values["model_type"] == WHISPER:
            config = front_end.model.config
            seconds = config.max_source_positions * WINDOW_SAMPLES / SAMPLE_RATE
            return {
                TYPE: "WhisperFeatureExtractor",
                "feature_size": config.num_mel_bins,
                # transformers takes seconds; this is 30.
                "chunk_length": int(seconds) if seconds.is_integer() else seconds,
                "sampling_rate": SAMPLE_RATE,
            }
        if values["model_type"] == "wav2vec2-bert":
            return {TYPE: "SeamlessM4TFeatureExtractor", "sampling_rate": SAMPLE_RATE}
    return {
        TYPE: "Wav2Vec2FeatureExtractor",
        "feature_size": 1,
        "sampling_rate": SAMPLE_RATE,
        "padding_value": 0.0,
        "do_normalize": front_end.normalize_waveforms,
        "return_attention_mask": True,
    }
