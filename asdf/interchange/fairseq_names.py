"""Conversion of layer names of fairseq (wav2vec 2.0, HuBERT) and WavLM to torchaudio's.

Invariant: a layer is renamed, known to be irrelevant for features, or left under its own name,
where the check of layers reports it. Renaming back gives fairseq's names again.

Source: the state dicts of fairseq, microsoft/unilm (WavLM) and torchaudio.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from torch import Tensor

from asdf.errors import AsdfError
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.encoder_layers import join_attention_layers

Layer = TypeVar("Layer")

# Layers of pretraining and its targets, and the output of networks fine-tuned to transcribe.
_NOT_USED = re.compile(r"(mask_emb|label_embs_concat)$|(quantizer|project_q|final_proj|proj|aux)\.")

# Prefixes of names, fairseq's first; N is a number. The first pair that matches applies.
_ENCODER_PAIRS = [
    ("self_attn.grep_linear.", "attention.gru_rel_pos_linear."),
    ("self_attn.grep_a", "attention.gru_rel_pos_const"),
    ("self_attn.relative_attention_bias.", "attention.rel_attn_embed."),
    ("self_attn.", "attention."),
    ("self_attn_layer_norm.", "layer_norm."),
    ("fc1.", "feed_forward.intermediate_dense."),
    ("fc2.", "feed_forward.output_dense."),
    ("final_layer_norm.", "final_layer_norm."),
]
_PAIRS = [
    ("feature_extractor.conv_layers.N.0.", "feature_extractor.conv_layers.N.conv."),
    ("feature_extractor.conv_layers.N.2.1.", "feature_extractor.conv_layers.N.layer_norm."),
    ("feature_extractor.conv_layers.N.2.", "feature_extractor.conv_layers.N.layer_norm."),
    ("post_extract_proj.", "encoder.feature_projection.projection."),
    ("layer_norm.", "encoder.feature_projection.layer_norm."),
    ("encoder.pos_conv.0.", "encoder.transformer.pos_conv_embed.conv."),
    ("encoder.layer_norm.", "encoder.transformer.layer_norm."),
]
for _theirs, _ours in _ENCODER_PAIRS:
    _PAIRS.append((f"encoder.layers.N.{_theirs}", f"encoder.transformer.layers.N.{_ours}"))

# A layer norm of the extractor is between two transpositions, a group norm is not.
_BARE_NORM = "feature_extractor.conv_layers.N.2."
_WRAPPED_NORM = "feature_extractor.conv_layers.N.2.1."

# The two parts of a weight-normalised convolution, with their names since weight norm became a
# parametrization in torch.
_WEIGHT_NORM = {
    "conv.weight_g": "conv.parametrizations.weight.original0",
    "conv.weight_v": "conv.parametrizations.weight.original1",
}


def is_fairseq(state: Mapping[str, Tensor]) -> bool:
    """Whether layers have fairseq's names."""
    return "feature_extractor.conv_layers.0.0.weight" in state


def torchaudio_names(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Return layers under torchaudio's names, from either naming; and names left out."""
    # Also called with torchaudio's names, which may still have the older names of weight norm.
    pairs = _PAIRS if is_fairseq(state) else []
    layers = {}
    left_out = []
    for name, tensor in state.items():
        if _NOT_USED.match(name):
            left_out.append(name)
        else:
            layers[_replace_end(_replace_start(name, pairs), _WEIGHT_NORM)] = tensor
    return join_attention_layers(layers), left_out


def fairseq_names(layers: Mapping[str, Layer], architecture: Architecture) -> dict[str, Layer]:
    """Return layers, or placeholders, under fairseq's names, from torchaudio's.

    Raises:
        AsdfError: the network is WavLM, which fairseq does not support.
    """
    if architecture.relative_positions:
        raise AsdfError("fairseq has no WavLM, and so no names for these layers.")
    return original_names(layers, architecture)


def original_names(layers: Mapping[str, Layer], architecture: Architecture) -> dict[str, Layer]:
    """Return layers under the names of the original program: fairseq's, or WavLM's.

    The names of WavLM are those of `split_attention_layers`.
    """
    # Two names of fairseq's map to one of ours; without the other mode's the inverse is unique.
    other = _WRAPPED_NORM
    if architecture.extractor_mode == "layer_norm":
        other = _BARE_NORM
    pairs = [(ours, theirs) for theirs, ours in _PAIRS if theirs != other]
    parts = {new: old for old, new in _WEIGHT_NORM.items()}
    renamed = {}
    for name, tensor in layers.items():
        renamed[_replace_start(_replace_end(name, parts), pairs)] = tensor
    return renamed


def _replace_start(name: str, pairs: list[tuple[str, str]]) -> str:
    for old, new in pairs:
        match = re.match(re.escape(old).replace("N", r"(\d+)"), name)
        if match:
            return new.replace("N", "".join(match.groups())) + name[match.end() :]
    return name


def _replace_end(name: str, ends: Mapping[str, str]) -> str:
    for old, new in ends.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
