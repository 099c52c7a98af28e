"""Folders of Hugging Face's wav2vec 2.0, HuBERT and WavLM, read without transformers.

Invariant: a configuration whose network this front end cannot be is an error, and a folder's index leads to no file
outside the folder.

Source: transformers, the documentation of the configurations.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.errors import AsdfError
from asdf.interchange.plain_values import check_plain
from asdf.interchange.safetensors import read_safetensors
from asdf.interchange.state_dicts import state_dict_in
from asdf.interchange.weights_file import read_weights_file
from asdf.networks.architectures import Architecture

CONFIG = "config.json"
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
MODEL_TYPES = ("wav2vec2", "hubert", "wavlm")
LARGEST_JSON = 20_000_000

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
_REQUIRED = {
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
    "layer_norm_eps": 1e-5,
    "feat_proj_layer_norm": True,
    "conv_pos_batch_norm": False,
    "adapter_attn_dim": None,
    "position_embeddings_type": None,
}


def folder_of(path: Path) -> Path | None:
    """The folder of a model, from its own path or from that of its weights; None where there is no configuration."""
    folder = path if path.is_dir() else path.parent
    known = path.is_dir() or path.name in WEIGHTS or path.suffix == ".safetensors"
    return folder if known and (folder / CONFIG).is_file() else None


def read_state(path: Path) -> dict[str, Tensor]:
    """The named tensors of a folder, of one file, or of the files that an index names.

    Raises:
        AsdfError: a folder without weights, or weights that cannot be read.
    """
    if path.is_dir():
        found = next((path / name for name in WEIGHTS if (path / name).is_file()), None)
        if found is None:
            raise AsdfError(
                f"the folder {path} holds no weights: none of {', '.join(WEIGHTS)}. Is the download complete? Files of "
                "TensorFlow and Flax are not read."
            )
        path = found
    if path.name.endswith(".index.json"):
        return _read_parts(path)
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0]
    return state_dict_in(read_weights_file(path), path)


def read_json(path: Path) -> dict[str, Any]:
    """The dictionary in a JSON file.

    Raises:
        AsdfError: it cannot be read, or holds something else.
    """
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ValueError(f"it is larger than {LARGEST_JSON:,} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it holds no dictionary")
        check_plain(content)
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise AsdfError(f"{path} is damaged: {error}. Download it again.") from error
    return content


def read_architecture(folder: Path) -> Architecture:
    """The architecture that the folder's configuration tells.

    Raises:
        AsdfError: the configuration is of a network that this front end cannot be, or cannot be understood.
    """
    path = folder / CONFIG
    config = read_json(path)
    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        raise AsdfError(
            f"{path} is of the model type {kind!r}; a front end is one of {', '.join(MODEL_TYPES)}."
        )
    for name, value in _REQUIRED.items():
        if config.get(name, value) != value:
            raise AsdfError(
                f"{path} has {name} = {config[name]!r}; this front end only knows {value!r}."
            )
    told = {**_DEFAULTS, **config}
    norm = told["feat_extract_norm"]
    try:
        return Architecture(
            conv_layers=tuple(
                (int(channels), int(kernel), int(stride))
                for channels, kernel, stride in zip(
                    told["conv_dim"], told["conv_kernel"], told["conv_stride"], strict=True
                )
            ),
            extractor_mode={"group": "group_norm", "layer": "layer_norm"}.get(norm, norm),
            conv_bias=bool(told["conv_bias"]),
            dimension=int(told["hidden_size"]),
            layers=int(told["num_hidden_layers"]),
            heads=int(told["num_attention_heads"]),
            feed_forward=int(told["intermediate_size"]),
            layer_norm_first=bool(told["do_stable_layer_norm"]),
            pos_conv_kernel=int(told["num_conv_pos_embeddings"]),
            pos_conv_groups=int(told["num_conv_pos_embedding_groups"]),
            relative_positions=(int(told["num_buckets"]), int(told["max_bucket_distance"]))
            if kind == "wavlm"
            else None,
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise AsdfError(f"{path} cannot be understood: {error}.") from error


def normalizes(folder: Path) -> bool | None:
    """Whether the network expects waveforms of zero mean and unit variance; None where the folder does not say."""
    path = folder / "preprocessor_config.json"
    told = read_json(path).get("do_normalize") if path.is_file() else None
    return told if isinstance(told, bool) else None


def _read_parts(index: Path) -> dict[str, Tensor]:
    parts = read_json(index).get("weight_map")
    if not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
        raise AsdfError(
            f"{index} is damaged: it holds no weight_map of file names. Download it again."
        )
    state: dict[str, Tensor] = {}
    for part in dict.fromkeys(parts.values()):
        # An index names its neighbours; it may not lead anywhere else.
        if Path(part).name != part or part.endswith(".index.json"):
            raise AsdfError(f"{index} is refused: it names {part!r}, which is no file beside it.")
        if not (index.parent / part).is_file():
            raise AsdfError(f"{index} names {part}, which is not there. Is the download complete?")
        state.update(read_state(index.parent / part))
    missing = [name for name in parts if name not in state]
    if missing:
        raise AsdfError(
            f"{index} names {len(missing)} layers that its files lack, {missing[0]} among them."
        )
    return state
