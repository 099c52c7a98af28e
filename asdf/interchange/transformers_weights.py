"""Folders of Hugging Face for a front end that transformers computes.

Invariant: every layer of the files is a layer of the front end, or is known to be irrelevant for
features and logged. No code in the files is executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.fitting import by_module, first_names, load_layers
from asdf.checkpoint.plain_values import read_json
from asdf.checkpoint.safetensors_network import CONFIG
from asdf.errors import AsdfError
from asdf.interchange import hugging_face
from asdf.interchange.front_end_weights import log_normalization
from asdf.interchange.named_weights import fetch_configuration, fetch_weights
from asdf.networks.front_ends.transformers_config import (
    EXTRACTOR,
    config_text,
    read_config,
    recorded_settings,
)
from asdf.networks.front_ends.transformers_front_end import TransformersFrontEnd
from asdf.runs.log import LOG
from asdf.settings.front_end_values import missing_weights

MASK_EMBEDDING = "masked_spec_embed"
# Layers of pretraining, and those after the encoder in fine-tuned networks.
_NOT_USED = re.compile(
    rf"(?:.*\.)?{MASK_EMBEDDING}$|(quantizer|project_q|project_hid|lm_head|classifier|projector|adapter"
    r"|layer_weights|tdnn|objective|intermediate_ffn|speaker_proj|label_embeddings_concat)\b"
)


@dataclass
class ChosenLayers:
    """A folder's layers by the front end's names, and those that it does not use.

    Attributes:
        mask_embedding: Vector of masked frames, (dimension,); None if there is none.
    """

    used: dict[str, Tensor]
    left_out: list[str]
    mask_embedding: Tensor | None = None


def read_architecture_text(weights: str) -> str:
    """Return the value of `front_end.architecture` of the model in a folder, or on the hub.

    Raises:
        AsdfError: there is no such folder, or its configuration is of no known kind.
    """
    return architecture_text_of(find_folder(fetch_configuration(weights)))


def architecture_text_of(folder: Path) -> str:
    """Return the value of `front_end.architecture` of the model in a folder.

    Raises:
        AsdfError: its configuration is of no known kind.
    """
    # Parsed by the safe reader, but returned as text.
    read_json(folder / CONFIG)
    config = read_config((folder / CONFIG).read_text(encoding="utf-8"))
    if (folder / hugging_face.PREPROCESSOR).is_file():
        extractor = recorded_settings(read_json(folder / hugging_face.PREPROCESSOR))
        if extractor:
            config[EXTRACTOR] = extractor
    return config_text(config)


def fill_from_folder(front_end: TransformersFrontEnd, weights: str) -> None:
    """Load the weights of a folder into a front end of the same configuration.

    Raises:
        AsdfError: there is no such folder, its files cannot be read, or they do not fit.
    """
    path = Path(fetch_weights(weights))
    folder = find_folder(str(path))
    if read_architecture_text(weights) != front_end.architecture_setting:
        raise AsdfError(
            f"weights {weights} have another configuration than the front end was built with. "
            "Build it with asdf.interchange.build_pretrained(settings), or with "
            "front_end.architecture set to the text of their config.json."
        )
    layers = choose_layers(hugging_face.read_state(path), front_end, weights)
    LOG.info("front end: %d layers from %s", len(layers.used), weights)
    if layers.left_out:
        LOG.info("front end: not loaded from %s: %s", weights, by_module(layers.left_out))
    load_layers(front_end.model, layers.used, weights)
    if front_end.takes_waveforms:
        normalized = hugging_face.normalizes(folder)
        log_normalization(weights, normalized, front_end.normalize_waveforms)
    if front_end.masking is not None and layers.mask_embedding is not None:
        front_end.masking.load_embedding(layers.mask_embedding)


def find_folder(weights: str) -> Path:
    """Return the folder of a model, from its path or that of its weights.

    Raises:
        AsdfError: there is none, or it has no configuration.
    """
    path = Path(weights)
    if not path.exists():
        raise AsdfError(missing_weights(path))
    folder = hugging_face.folder_of(path)
    if folder is None:
        raise AsdfError(
            f"cannot read weights from {path}: front_end.front_end_class = 'transformers' needs a "
            f"Hugging Face folder with its {CONFIG}. For checkpoints of other programs leave "
            "front_end.front_end_class at None."
        )
    return folder


def choose_layers(
    state: Mapping[str, Tensor], front_end: TransformersFrontEnd, weights: str
) -> ChosenLayers:
    """Return the layers of a folder by the names of a front end, which may have no weights.

    Args:
        weights: Name of the folder in messages.

    Raises:
        AsdfError: they contain no such encoder, or several.
    """
    names = front_end.model.state_dict().keys()
    renamings = find_renamings(front_end.model)
    prefix = _find_prefix(state, next(iter(names)), weights)
    # Layers above `front_end.layer` are not built, so the file has more.
    built = len(front_end.layer_modules())
    in_layer = re.compile(rf"{re.escape(front_end.outline.layers)}\.(\d+)\.")
    layers = ChosenLayers({}, [])
    for full_name, tensor in state.items():
        name = full_name.removeprefix(prefix)
        if name not in names:
            for renaming in renamings:
                name, _ = renaming.rename_source_key(name)
            for old, new in hugging_face.OLD_NAMES.items():
                if name.endswith(old):
                    name = name.removesuffix(old) + new
                    break
        number = in_layer.match(name)
        is_above = number is not None and built <= int(number[1]) < front_end.encoder_layers
        if not full_name.startswith(prefix) or is_above or _NOT_USED.match(name):
            layers.left_out.append(full_name)
        else:
            layers.used[name] = tensor
        if name.rpartition(".")[2] == MASK_EMBEDDING:
            layers.mask_embedding = tensor
    return layers


def _find_prefix(state: Mapping[str, Tensor], first: str, weights: str) -> str:
    """Return the prefix of the encoder's names, such as 'wav2vec2.' in fine-tuned networks."""
    prefixes = [name.removesuffix(first) for name in state if f".{name}".endswith(f".{first}")]
    if len(prefixes) == 1:
        return prefixes[0]
    raise AsdfError(
        f"weights {weights} should hold one encoder with a layer {first}; they hold "
        f"{len(prefixes)} of them. Layers are {first_names(list(state))}."
    )


def find_renamings(model: Any) -> list[Any]:
    """Return transformers' rules for names in files that differ from those of the network."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightRenaming
    except ImportError:
        # In such a version, networks have the names in their files.
        return []
    # Rules that compute, for example to join experts in one tensor, do not apply to audio encoders.
    rules = get_model_conversion_mapping(model)
    return [rule for rule in rules if isinstance(rule, WeightRenaming)]
