"""fairseq's wav2vec 2.0 and HuBERT checkpoints, and the similar ones of WavLM: options and names.

Invariant: an option that would change the features in an unsupported way is an error, and nothing
in an option is executed. A layer is renamed as torchaudio's, known to be irrelevant for features,
or left under its own name, where the check of layers reports it. Renaming back gives fairseq's
names again.

Source: fairseq, `fairseq/models/wav2vec/wav2vec2.py` (options and their defaults); microsoft/unilm,
`wavlm/WavLM.py`; the state dicts of both, and of torchaudio.
"""

from __future__ import annotations

import ast
import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import Tensor

from asdf.errors import AsdfError
from asdf.networks.front_ends.architectures import Architecture, ConvLayers
from asdf.networks.front_ends.encoder_layers import join_attention_layers

_DEFAULTS: dict[str, Any] = {
    "extractor_mode": "default",
    "conv_feature_layers": "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)] + [(512,2,2)]",
    "conv_bias": False,
    "encoder_embed_dim": 768,
    "encoder_layers": 12,
    "encoder_attention_heads": 12,
    "encoder_ffn_embed_dim": 3072,
    "layer_norm_first": False,
    "conv_pos": 128,
    "conv_pos_groups": 16,
    "relative_position_embedding": False,
    "num_buckets": 320,
    "max_distance": 800,
}
_SIZES = {
    "conv_bias": "conv_bias",
    "dimension": "encoder_embed_dim",
    "layers": "encoder_layers",
    "heads": "encoder_attention_heads",
    "feed_forward": "encoder_ffn_embed_dim",
    "layer_norm_first": "layer_norm_first",
    "pos_conv_kernel": "conv_pos",
    "pos_conv_groups": "conv_pos_groups",
}
# Published networks have seven; a malicious file may repeat a list many times.
_MAX_LAYERS = 100
# With other values the same layers would give other features. These are fairseq's defaults, so an
# option that an older checkpoint lacks has the right value.
_REQUIRED = {
    "activation_fn": "gelu",
    "layer_type": "transformer",
    "pos_conv_depth": 1,
    "pos_enc_type": "abs",
}
_REQUIRED_OF_WAVLM = {"gru_rel_pos": True}
# Errors of int() and ast, the last two for brackets nested a thousand deep.
_UNREADABLE = (ValueError, TypeError, OverflowError, SyntaxError, RecursionError, MemoryError)


def architecture_from_options(content: Mapping[str, Any]) -> Architecture | None:
    """Return the architecture in a checkpoint's options, or None if it has none.

    Raises:
        AsdfError: the options are of a network that this front end does not support.
    """
    cfg = _plain_dict(content.get("cfg"))
    args = _plain_dict(content.get("args"))
    # In `cfg.model`, or in `args` of older files; WavLM's own files have them in `cfg`.
    options = _plain_dict(cfg.get("model")) or args or cfg
    # A fine-tuned network has those of its front end in `w2v_args`.
    fine_tuned = _plain_dict(options.get("w2v_args"))
    options = _plain_dict(fine_tuned.get("model")) or fine_tuned or options
    if "encoder_layers" not in options and "encoder_embed_dim" not in options:
        return None
    is_wavlm = options.get("relative_position_embedding")
    required = {**_REQUIRED, **_REQUIRED_OF_WAVLM} if is_wavlm else _REQUIRED
    for name, value in required.items():
        if options.get(name, value) != value:
            raise AsdfError(
                f"its option {name} is {options[name]!r}; this front end only supports {value!r}. "
                "Choose a wav2vec 2.0, XLS-R or HuBERT checkpoint."
            )
    options = {**_DEFAULTS, **options}
    mode = options["extractor_mode"]
    try:
        relative_positions = None
        if options["relative_position_embedding"]:
            relative_positions = (int(options["num_buckets"]), int(options["max_distance"]))
        return Architecture(
            conv_layers=conv_layers(options["conv_feature_layers"]),
            # fairseq calls the group norm 'default'; Architecture refuses unknown words by name.
            extractor_mode="group_norm" if mode == "default" else mode,
            relative_positions=relative_positions,
            **read_sizes(options, _SIZES),
        )
    except _UNREADABLE as error:
        raise AsdfError(
            f"its options are invalid: {error}. Is it a wav2vec 2.0 checkpoint?"
        ) from error


def read_sizes(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return sizes of an `Architecture` from options, whose names are given by ours.

    Raises:
        ValueError, TypeError, OverflowError: one is not a number.
    """
    sizes: dict[str, Any] = {}
    for ours, theirs in names.items():
        is_flag = ours in ("conv_bias", "layer_norm_first")
        sizes[ours] = bool(options[theirs]) if is_flag else int(options[theirs])
    return sizes


def normalizes(content: Mapping[str, Any]) -> bool | None:
    """Whether the network expects waveforms of zero mean and unit variance; None if unknown."""
    cfg = _plain_dict(content.get("cfg"))
    # From fairseq's task, from WavLM's other options, or from the single namespace of older files.
    for options in (_plain_dict(cfg.get("task")), cfg, _plain_dict(content.get("args"))):
        value = options.get("normalize")
        if isinstance(value, bool):
            return value
    return None


def conv_layers(text: str) -> ConvLayers:
    """Return the convolutions of `conv_feature_layers`, which is written as a sum of lists.

    An example is `[(512, 10, 5)] + [(512, 2, 2)] * 2`: channels, kernel and stride.

    Raises:
        ValueError: the text has another form; it is never executed.
    """
    # fairseq calls eval() on this text, which is part of the file.
    layers = _add_layers(ast.parse(text.strip(), mode="eval").body)
    numbers = [number for layer in layers for number in layer]
    are_positive = all(type(number) is int and number > 0 for number in numbers)
    if {len(layer) for layer in layers} != {3} or not are_positive:
        raise ValueError(f"conv_feature_layers is {text!r}")
    return tuple((channels, kernel, stride) for channels, kernel, stride in layers)


def _add_layers(node: ast.expr) -> list[tuple[int, ...]]:
    match node:
        case ast.List():
            return [tuple(ast.literal_eval(element)) for element in node.elts]
        case ast.BinOp(op=ast.Add()):
            return _bound_layers(_add_layers(node.left) + _add_layers(node.right))
        case ast.BinOp(op=ast.Mult(), right=ast.Constant(value=times)):
            # A bool is an int, but not a valid count.
            # Checked before the multiplication, which could fill the memory.
            if type(times) is int and 0 < times < _MAX_LAYERS:
                return _bound_layers(_add_layers(node.left) * times)
    raise ValueError(f"{ast.unparse(node)!r} is not a list of layers")


def _bound_layers(layers: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if len(layers) > _MAX_LAYERS:
        raise ValueError(f"conv_feature_layers has more than {_MAX_LAYERS} layers")
    return layers


def _plain_dict(value: Any) -> dict[str, Any]:
    # fairseq saved argparse's Namespace before it had configurations.
    if isinstance(value, Namespace):
        return vars(value)
    return dict(value) if isinstance(value, Mapping) else {}


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
_PAIRS += [
    (f"encoder.layers.N.{theirs}", f"encoder.transformer.layers.N.{ours}")
    for theirs, ours in _ENCODER_PAIRS
]

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
    left_out = [name for name in state if _NOT_USED.match(name)]
    layers = {
        _replace_end(_replace_start(name, pairs), _WEIGHT_NORM): tensor
        for name, tensor in state.items()
        if not _NOT_USED.match(name)
    }
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
    other = _BARE_NORM if architecture.extractor_mode == "layer_norm" else _WRAPPED_NORM
    pairs = [(ours, theirs) for theirs, ours in _PAIRS if theirs != other]
    parts = {new: old for old, new in _WEIGHT_NORM.items()}
    return {
        _replace_start(_replace_end(name, parts), pairs): layer for name, layer in layers.items()
    }


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
