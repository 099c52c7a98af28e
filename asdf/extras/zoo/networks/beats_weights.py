"""Weights of BEATs as its authors publish them: a file with a configuration and named layers.

Invariant: every layer of the file is a layer of the front end, or is known to be irrelevant for
features and logged; any other layer keeps its name, so that the check of layers reports it. No code
in the file is executed.

Source: microsoft/unilm, beats: `{"cfg": ..., "model": ...}`, pretrained or fine-tuned on AudioSet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from asdf.checkpoint.fitting import by_module, load_layers
from asdf.checkpoint.weights_file import read_weights_file, state_dict_in
from asdf.errors import AsdfError
from asdf.extras.zoo.networks.beats import BEATsFrontEnd
from asdf.extras.zoo.networks.beats_encoder import BEATsSizes
from asdf.interchange.named_weights import fetch_weights
from asdf.runs.log import LOG

# The authors' prefixes of the parts.
_PARTS = {
    "post_extract_proj.": "projection.",
    "layer_norm.": "patch_norm.",
    "encoder.layer_norm.": "layer_norm.",
    "encoder.pos_conv.0.weight_g": "positions.conv.parametrizations.weight.original0",
    "encoder.pos_conv.0.weight_v": "positions.conv.parametrizations.weight.original1",
    "encoder.pos_conv.0.bias": "positions.conv.bias",
}
# Names within a layer.
_IN_LAYERS = {
    "self_attn.grep_linear.": "attention.pos_gate.",
    "self_attn.grep_a": "attention.pos_gate_scale",
    "self_attn_layer_norm.": "attention_norm.",
    "self_attn.": "attention.",
    "fc1.": "feed_forward_in.",
    "fc2.": "feed_forward_out.",
    "final_layer_norm.": "final_norm.",
}
_LAYER = re.compile(r"encoder\.layers\.(\d+)\.(.+)")
_BIASES = "self_attn.relative_attention_bias.weight"
_FIRST_BIASES = f"encoder.layers.0.{_BIASES}"
# Prefix of the layers after the encoder in fine-tuned networks.
_PREDICTOR = "predictor."
_SIZES = {
    "encoder_layers": "layers",
    "encoder_embed_dim": "dimension",
    "encoder_attention_heads": "heads",
    "encoder_ffn_embed_dim": "feed_forward",
    "input_patch_size": "patch",
    "embed_dim": "patch_dimension",
    "conv_pos": "pos_conv_kernel",
    "conv_pos_groups": "pos_conv_groups",
    "num_buckets": "buckets",
    "max_distance": "max_distance",
    "deep_norm": "deep_norm",
}
# Required values, because with others the same layers would give other features.
_REQUIRED = {
    "layer_norm_first": False,
    "relative_position_embedding": True,
    "gru_rel_pos": True,
    "activation_fn": "gelu",
    "conv_bias": False,
}


def is_beats(state: Mapping[str, Any]) -> bool:
    """Return whether layers have BEATs' names."""
    return "patch_embedding.weight" in state and _FIRST_BIASES in state


def fill(front_end: BEATsFrontEnd, weights: str) -> None:
    """Load a published file into a front end of the same sizes.

    Raises:
        AsdfError: the file cannot be read or downloaded, is not of BEATs, or does not fit.
    """
    path = fetch_weights(weights)
    content = read_weights_file(path)
    state = state_dict_in(content, path)
    config = content.get("cfg")
    if not is_beats(state) or not isinstance(config, Mapping):
        raise AsdfError(
            f"weights file {path} is not a BEATs file: it lacks the configuration ('cfg') or the "
            "layer patch_embedding. Name a file published by microsoft/unilm."
        )
    for name, value in _REQUIRED.items():
        if config.get(name) != value:
            raise AsdfError(
                f"weights file {path} has {name} = {config.get(name)!r} in its configuration; ASDF "
                f"supports {value!r} only."
            )
    missing = [name for name in _SIZES if not isinstance(config.get(name), int)]
    if missing:
        raise AsdfError(
            f"weights file {path} is damaged: its configuration lacks the number {missing[0]}."
        )
    sizes = BEATsSizes(**{ours: config[theirs] for theirs, ours in _SIZES.items()})
    if sizes != front_end.sizes:
        raise AsdfError(
            f"weights file {path} is a BEATs of other sizes than the front end was built with. Set "
            f"front_end.architecture = {sizes.to_text()!r}."
        )
    layers, left_out = rename_layers(state)
    LOG.info("front end: %d layers from %s", len(layers), weights)
    if left_out:
        LOG.info("front end: not loaded from %s: %s", weights, by_module(left_out))
    load_layers(front_end.model, layers, weights)


def rename_layers(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Return layers under the front end's names, and the names of unused layers."""
    layers = {}
    left_out = []
    for name, tensor in state.items():
        if name.startswith(_PREDICTOR):
            left_out.append(name)
        elif name == _FIRST_BIASES:
            layers["position_biases.weight"] = tensor
        # All layers share the biases of the first, which the file repeats.
        elif not (name.endswith(_BIASES) and torch.equal(tensor, state[_FIRST_BIASES])):
            our_name = _replace_start(name, _PARTS)
            if in_layer := _LAYER.fullmatch(name):
                number, rest = in_layer.groups()
                our_name = f"layers.{number}.{_replace_start(rest, _IN_LAYERS)}"
            layers[our_name] = tensor
    return layers, left_out


def _replace_start(name: str, starts: Mapping[str, str]) -> str:
    for theirs, ours in starts.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name
