"""Folders of Hugging Face's wav2vec 2.0, HuBERT, WavLM and MERT, read without transformers.

Invariant: a configuration of an unsupported network is an error, and a folder's index refers to no
file outside of the folder.

A layer is renamed as torchaudio's, known to be irrelevant for features, or left under its own name,
where the check of layers reports it.

Sources: transformers, the documentation of the configurations; the state dicts of transformers and
torchaudio. Li et al., "MERT", ICLR 2024, whose published networks compute what HuBERT's do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.network_reading import CONFIG, read_safetensors
from asdf.checkpoint.weights_file import read_json, read_weights_file, state_dict_in
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.interchange.fairseq import read_sizes
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.encoder_layers import join_attention_layers, split_attention_layers
from asdf.settings.sections import FRONT_ENDS, HIGHEST_RATE, LOWEST_RATE

PREPROCESSOR = "preprocessor_config.json"
# The first existing file is read: safetensors contain no pickle, and their tensors can be
# memory-mapped.
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
OLD_NAMES = {
    ".weight_g": ".parametrizations.weight.original0",
    ".weight_v": ".parametrizations.weight.original1",
}
"""Old and new names of the parts of a weight norm in torch and transformers."""

MODEL_TYPES = ("wav2vec2", "hubert", "wavlm", "mert_model")
# HuBERT's network by another name.
_MERT = "mert_model"
# Layers of pretraining, and those after the encoder in fine-tuned networks.
_NOT_USED = re.compile(
    r"masked_spec_embed$|(quantizer|project_q|project_hid|lm_head|classifier|projector"
    r"|layer_weights|tdnn|feature_extractor_classifier|objective|adapter)\b"
)

SIZES = {
    "conv_bias": "conv_bias",
    "dimension": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "layer_norm_first": "do_stable_layer_norm",
    "pos_conv_kernel": "num_conv_pos_embeddings",
    "pos_conv_groups": "num_conv_pos_embedding_groups",
}
"""Names of sizes in a configuration of transformers, by those of an `Architecture`."""

_DEFAULTS: dict[str, Any] = {
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "feat_extract_norm": "group",
    "conv_bias": False,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "do_stable_layer_norm": False,
    "num_conv_pos_embeddings": 128,
    "num_conv_pos_embedding_groups": 16,
    "num_buckets": 320,
    "max_bucket_distance": 800,
}
# Required values, because with others the same layers would give other features.
_REQUIRED = {
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
    "layer_norm_eps": 1e-5,
    "feat_proj_layer_norm": True,
    "conv_pos_batch_norm": False,
    "adapter_attn_dim": None,
    "position_embeddings_type": None,
    # Of MERT.
    "feature_extractor_cqt": False,
    "deepnorm": False,
}


def folder_of(path: Path) -> Path | None:
    """Return the folder of a model from its path or that of its weights; None without a config."""
    folder = path if path.is_dir() else path.parent
    is_weights = path.name in WEIGHTS or path.suffix == ".safetensors"
    if (path.is_dir() or is_weights) and (folder / CONFIG).is_file():
        return folder
    return None


def read_state(path: Path) -> dict[str, Tensor]:
    """Read the named tensors of a folder, of one file, or of the files in an index.

    Raises:
        AsdfError: the folder has no weights, or they cannot be read.
    """
    if path.is_dir():
        present = [path / name for name in WEIGHTS if (path / name).is_file()]
        if not present:
            raise AsdfError(
                f"the folder {path} holds no weights: none of {', '.join(WEIGHTS)}. Is the "
                "download complete? TensorFlow and Flax files are not supported."
            )
        path = present[0]
    if path.name.endswith(".index.json"):
        return _read_parts(path)
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0]
    return state_dict_in(read_weights_file(path), path)


def read_architecture(folder: Path) -> Architecture:
    """Read the architecture from the folder's configuration.

    Raises:
        AsdfError: the configuration is of an unsupported network, or is not valid.
    """
    path = folder / CONFIG
    config = read_json(path)
    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        is_other = str(kind) in FRONT_ENDS
        advice = f" Set front_end.front_end_class = {kind!r}." if is_other else ""
        raise AsdfError(
            f"{path} has the model type {kind!r}; a front end is one of "
            f"{', '.join(MODEL_TYPES)}.{advice}"
        )
    architecture = architecture_of(config, path)
    if kind != _MERT:
        return architecture
    # The rate at which a MERT network was trained.
    rates = [config["sample_rate"]] if "sample_rate" in config else []
    if (folder / PREPROCESSOR).is_file():
        preprocessor = read_json(folder / PREPROCESSOR)
        if "sampling_rate" in preprocessor:
            rates.append(preprocessor["sampling_rate"])
    rates = rates or [SAMPLE_RATE]
    is_rate = type(rates[0]) is int and LOWEST_RATE <= rates[0] <= HIGHEST_RATE
    # As text, since a file may state anything, also what cannot be in a set.
    if len(set(map(str, rates))) > 1 or not is_rate:
        raise AsdfError(
            f"{folder / CONFIG} and {PREPROCESSOR} state conflicting or invalid sampling rates: "
            f"{' and '.join(map(str, rates))}. Download the folder again."
        )
    return replace(architecture, sample_rate=rates[0])


def architecture_of(config: Mapping[str, Any], path: Path) -> Architecture:
    """Return the architecture that a configuration of transformers describes.

    Args:
        path: Name of the configuration in messages.

    Raises:
        AsdfError: it is of an unsupported network, or is not valid.
    """
    for name, value in _REQUIRED.items():
        if config.get(name, value) != value:
            raise AsdfError(
                f"{path} has {name} = {config[name]!r}; this front end only supports {value!r}."
            )
    config = {**_DEFAULTS, **config}
    norm = config["feat_extract_norm"]
    try:
        relative_positions = None
        if config["model_type"] == "wavlm":
            relative_positions = (int(config["num_buckets"]), int(config["max_bucket_distance"]))
        layers = zip(config["conv_dim"], config["conv_kernel"], config["conv_stride"], strict=True)
        return Architecture(
            conv_layers=tuple((int(width), int(kernel), int(hop)) for width, kernel, hop in layers),
            # An unknown word is passed to Architecture, whose error message includes it.
            extractor_mode=f"{norm}_norm" if norm in ("group", "layer") else norm,
            relative_positions=relative_positions,
            **read_sizes(config, SIZES),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise AsdfError(f"{path} is invalid: {error}.") from error


def normalizes(folder: Path) -> bool | None:
    """Whether the network expects waveforms of zero mean and unit variance; None if unknown."""
    path = folder / PREPROCESSOR
    if not path.is_file():
        return None
    value = read_json(path).get("do_normalize")
    return value if isinstance(value, bool) else None


def _read_parts(index: Path) -> dict[str, Tensor]:
    parts = read_json(index).get("weight_map")
    if not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
        raise AsdfError(
            f"{index} is damaged: it holds no weight_map of file names. Download it again."
        )
    state: dict[str, Tensor] = {}
    # Each file once: the index lists it for every layer in it.
    for part in dict.fromkeys(parts.values()):
        # An index lists files of its folder, and may not refer to any other.
        if Path(part).name != part or part.endswith(".index.json"):
            raise AsdfError(
                f"{index} is rejected: it names {part!r}, which is not a file next to it."
            )
        if not (index.parent / part).is_file():
            raise AsdfError(f"{index} names {part}, which is missing. Is the download complete?")
        state.update(read_state(index.parent / part))
    missing = [name for name in parts if name not in state]
    if missing:
        raise AsdfError(
            f"{index} names {len(missing)} layers that its files lack, {missing[0]} among them."
        )
    return state


def is_hugging_face(state: Mapping[str, Tensor]) -> bool:
    """Whether layers have Hugging Face's names."""
    # fairseq calls it post_extract_proj, and torchaudio has it below `encoder.`.
    return "feature_projection.projection.weight" in state


def torchaudio_names(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Return layers under torchaudio's names, and the names of those left out."""
    layers = {}
    left_out = []
    for name, tensor in state.items():
        new_name = name
        for old, new in OLD_NAMES.items():
            if name.endswith(old):
                new_name = name.removesuffix(old) + new
        if _NOT_USED.match(name):
            left_out.append(name)
        elif name.startswith("feature_projection."):
            layers[f"encoder.{new_name}"] = tensor
        elif name.startswith("encoder."):
            layers[f"encoder.transformer.{new_name.removeprefix('encoder.')}"] = tensor
        else:
            layers[new_name] = tensor
    return join_attention_layers(layers), left_out


def hugging_face_name(name: str) -> str:
    """Return transformers' name of a layer, from torchaudio's."""
    if name.startswith("encoder.transformer."):
        return f"encoder.{name.removeprefix('encoder.transformer.')}"
    return name.removeprefix("encoder.")


def hugging_face_names(layers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return layers under transformers' names, from torchaudio's."""
    parts = split_attention_layers(layers)
    return {hugging_face_name(name): tensor for name, tensor in parts.items()}
