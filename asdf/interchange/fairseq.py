"""The options of fairseq's wav2vec 2.0 and HuBERT checkpoints, and of WavLM's, which are like them.

Invariant: an option that would change the features in a way this network cannot follow is an error, and nothing that
an option says is run.

Source: fairseq, `fairseq/models/wav2vec/wav2vec2.py` (options and their defaults); microsoft/unilm, `wavlm/WavLM.py`.
"""

from __future__ import annotations

import ast
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from asdf.errors import AsdfError
from asdf.networks.architectures import Architecture, ConvLayers

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
# Those that are published have seven; a sum may be multiplied over and over.
_MOST_LAYERS = 100
_REQUIRED = {
    "activation_fn": "gelu",
    "layer_type": "transformer",
    "pos_conv_depth": 1,
    "pos_enc_type": "abs",
}
_REQUIRED_OF_WAVLM = {"gru_rel_pos": True}


def architecture_from_options(content: Mapping[str, Any]) -> Architecture | None:
    """The architecture that a checkpoint's options tell, or None where there are none.

    Raises:
        AsdfError: the options are of a network that this front end cannot be.
    """
    options = _options(content)
    if options is None:
        return None
    required = _REQUIRED | (
        _REQUIRED_OF_WAVLM if options.get("relative_position_embedding") else {}
    )
    for name, value in required.items():
        if options.get(name, value) != value:
            raise AsdfError(
                f"its option {name} is {options[name]!r}; this front end only knows {value!r}. "
                "Choose a wav2vec 2.0, XLS-R or HuBERT checkpoint."
            )
    told = {**_DEFAULTS, **options}
    try:
        return Architecture(
            conv_layers=conv_layers(told["conv_feature_layers"]),
            extractor_mode={"default": "group_norm"}.get(
                told["extractor_mode"], told["extractor_mode"]
            ),
            conv_bias=bool(told["conv_bias"]),
            dimension=int(told["encoder_embed_dim"]),
            layers=int(told["encoder_layers"]),
            heads=int(told["encoder_attention_heads"]),
            feed_forward=int(told["encoder_ffn_embed_dim"]),
            layer_norm_first=bool(told["layer_norm_first"]),
            pos_conv_kernel=int(told["conv_pos"]),
            pos_conv_groups=int(told["conv_pos_groups"]),
            relative_positions=(int(told["num_buckets"]), int(told["max_distance"]))
            if told["relative_position_embedding"]
            else None,
        )
    except (
        ValueError,
        TypeError,
        OverflowError,
        SyntaxError,
        RecursionError,
        MemoryError,
    ) as error:
        raise AsdfError(
            f"its options cannot be understood: {error}. Is it a wav2vec 2.0 checkpoint?"
        ) from error


def normalizes(content: Mapping[str, Any]) -> bool | None:
    """Whether the network expects waveforms of zero mean and unit variance; None where the options do not say."""
    cfg = _plain(content.get("cfg"))
    told = (
        options.get("normalize")
        for options in (_plain(cfg.get("task")), cfg, _plain(content.get("args")))
    )
    return next((value for value in told if isinstance(value, bool)), None)


def conv_layers(text: str) -> ConvLayers:
    """The convolutions that `conv_feature_layers` writes as a sum of lists: `[(512, 10, 5)] + [(512, 2, 2)] * 2`.

    Raises:
        ValueError: the text is anything else; it is not run.
    """
    layers = _layers_of(ast.parse(text.strip(), mode="eval").body)
    if not layers or not all(_is_layer(layer) for layer in layers):
        raise ValueError(f"conv_feature_layers is {text!r}")
    return tuple((channels, kernel, stride) for channels, kernel, stride in layers)


def _layers_of(node: ast.expr) -> list[tuple[int, ...]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _bounded(_layers_of(node.left) + _layers_of(node.right))
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and isinstance(node.right, ast.Constant)
    ):
        times = node.right.value
        if type(times) is int and 0 < times < 100:
            return _bounded(_layers_of(node.left) * times)
    if isinstance(node, ast.List):
        return [tuple(ast.literal_eval(element)) for element in node.elts]
    raise ValueError(f"{ast.unparse(node)!r} is not a list of layers")


def _is_layer(layer: tuple[int, ...]) -> bool:
    return len(layer) == 3 and all(type(n) is int and n > 0 for n in layer)


def _bounded(layers: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if len(layers) > _MOST_LAYERS:
        raise ValueError(f"conv_feature_layers asks for more than {_MOST_LAYERS} layers")
    return layers


def _options(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """They are in `cfg.model`, in older files in `args`; a fine-tuned network keeps its front end's in `w2v_args`.

    WavLM's own files have them in `cfg`.
    """
    cfg, args = _plain(content.get("cfg")), _plain(content.get("args"))
    options = _plain(cfg.get("model")) or args or cfg
    fine_tuned = _plain(options.get("w2v_args"))
    options = _plain(fine_tuned.get("model")) or fine_tuned or options
    return options if "encoder_layers" in options or "encoder_embed_dim" in options else None


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Namespace):
        return vars(value)
    return dict(value) if isinstance(value, Mapping) else {}
