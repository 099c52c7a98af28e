"""fairseq's wav2vec 2.0 checkpoints: their layer names and their options, in terms of torchaudio's network.

Invariant: a layer is either renamed, known to be of no use for features, or left under its own name, where the check
of layers finds it. An option that would change the features in a way this network cannot follow is an error.

Source: fairseq, `fairseq/models/wav2vec/wav2vec2.py` (options and their defaults), and torchaudio's network.
"""

from __future__ import annotations

import ast
import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from asdf.errors import AsdfError
from asdf.networks.architectures import Architecture, ConvLayers

# Of the pretraining task, of its targets, and the output of networks fine-tuned to write text.
_NOT_USED = re.compile(r"(mask_emb|label_embs_concat)$|(quantizer|project_q|final_proj|proj|aux)\.")

_TRANSFORMER = "encoder.transformer"
_LAYER = rf"{_TRANSFORMER}.layers.\1"
_RENAMED = [
    (r"feature_extractor\.conv_layers\.(\d+)\.0\.", r"feature_extractor.conv_layers.\1.conv."),
    (r"feature_extractor\.conv_layers\.(\d+)\.2\.(?:1\.)?", r"feature_extractor.conv_layers.\1.layer_norm."),
    (r"post_extract_proj\.", "encoder.feature_projection.projection."),
    (r"layer_norm\.", "encoder.feature_projection.layer_norm."),
    (r"encoder\.pos_conv\.0\.", f"{_TRANSFORMER}.pos_conv_embed.conv."),
    (r"encoder\.layer_norm\.", f"{_TRANSFORMER}.layer_norm."),
    (r"encoder\.layers\.(\d+)\.self_attn\.", rf"{_LAYER}.attention."),
    (r"encoder\.layers\.(\d+)\.self_attn_layer_norm\.", rf"{_LAYER}.layer_norm."),
    (r"encoder\.layers\.(\d+)\.fc1\.", rf"{_LAYER}.feed_forward.intermediate_dense."),
    (r"encoder\.layers\.(\d+)\.fc2\.", rf"{_LAYER}.feed_forward.output_dense."),
    (r"encoder\.layers\.(\d+)\.final_layer_norm\.", rf"{_LAYER}.final_layer_norm."),
]
_RENAMES = [(re.compile(pattern), new) for pattern, new in _RENAMED]

# Where torch keeps the two parts of a weight-normalised convolution since it made weight norm a parametrization.
_WEIGHT_NORM = {"conv.weight_g": "conv.parametrizations.weight.original0"}
_WEIGHT_NORM["conv.weight_v"] = "conv.parametrizations.weight.original1"

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
}
_REQUIRED = {"activation_fn": "gelu", "layer_type": "transformer", "pos_conv_depth": 1, "pos_enc_type": "abs"}


def is_fairseq(state: Mapping[str, Tensor]) -> bool:
    """Whether layers go by fairseq's names."""
    return "feature_extractor.conv_layers.0.0.weight" in state


def torchaudio_names(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Layers under torchaudio's names, from fairseq's or from torchaudio's own, and the names of those left out."""
    rename = _renamed if is_fairseq(state) else str
    kept = {_weight_norm(rename(name)): tensor for name, tensor in state.items() if not _NOT_USED.match(name)}
    return kept, [name for name in state if _NOT_USED.match(name)]


def architecture_told(content: Mapping[str, Any]) -> Architecture | None:
    """The architecture that a checkpoint's options tell, or None where there are none.

    Raises:
        AsdfError: the options are of a network that this front end cannot be.
    """
    options = _options(content)
    if options is None:
        return None
    for name, value in _REQUIRED.items():
        if options.get(name, value) != value:
            raise AsdfError(
                f"its option {name} is {options[name]!r}; this front end only knows {value!r}. "
                "Choose a wav2vec 2.0, XLS-R or HuBERT checkpoint."
            )
    told = {**_DEFAULTS, **options}
    try:
        return Architecture(
            conv_layers=conv_layers(told["conv_feature_layers"]),
            extractor_mode={"default": "group_norm"}.get(told["extractor_mode"], told["extractor_mode"]),
            conv_bias=bool(told["conv_bias"]),
            dimension=int(told["encoder_embed_dim"]),
            layers=int(told["encoder_layers"]),
            heads=int(told["encoder_attention_heads"]),
            feed_forward=int(told["encoder_ffn_embed_dim"]),
            layer_norm_first=bool(told["layer_norm_first"]),
            pos_conv_kernel=int(told["conv_pos"]),
            pos_conv_groups=int(told["conv_pos_groups"]),
        )
    except (ValueError, TypeError, SyntaxError) as error:
        raise AsdfError(f"its options cannot be understood: {error}. Is it a wav2vec 2.0 checkpoint?") from error


def conv_layers(text: str) -> ConvLayers:
    """The convolutions that `conv_feature_layers` writes as a sum of lists: `[(512, 10, 5)] + [(512, 2, 2)] * 2`.

    Raises:
        ValueError: the text is anything else; it is not run.
    """
    layers = _layers_of(ast.parse(text.strip(), mode="eval").body)
    if not layers or not all(len(layer) == 3 and all(type(n) is int and n > 0 for n in layer) for layer in layers):
        raise ValueError(f"conv_feature_layers is {text!r}")
    return tuple((channels, kernel, stride) for channels, kernel, stride in layers)


def _layers_of(node: ast.expr) -> list[tuple[int, ...]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _layers_of(node.left) + _layers_of(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.right, ast.Constant):
        times = node.right.value
        if type(times) is int and 0 < times < 100:
            return _layers_of(node.left) * times
    if isinstance(node, ast.List):
        return [tuple(ast.literal_eval(element)) for element in node.elts]
    raise ValueError(f"{ast.unparse(node)!r} is not a list of layers")


def _options(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """They are in `cfg.model`, in older files in `args`; a fine-tuned network keeps its front end's in `w2v_args`."""
    cfg, args = _plain(content.get("cfg")), _plain(content.get("args"))
    options = _plain(cfg.get("model")) or args
    fine_tuned = _plain(options.get("w2v_args"))
    options = _plain(fine_tuned.get("model")) or fine_tuned or options
    return options if "encoder_layers" in options or "encoder_embed_dim" in options else None


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Namespace):
        return vars(value)
    return dict(value) if isinstance(value, Mapping) else {}


def _renamed(name: str) -> str:
    for pattern, new in _RENAMES:
        if pattern.match(name):
            return pattern.sub(new, name, count=1)
    return name


def _weight_norm(name: str) -> str:
    for old, new in _WEIGHT_NORM.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
