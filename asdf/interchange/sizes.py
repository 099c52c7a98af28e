"""What the shapes of a detector's layers tell of its settings.

Invariant: what shapes leave open is the published value, or an error that says what to give; nothing is guessed in
silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.errors import AsdfError
from asdf.interchange.front_end_weights import matching
from asdf.networks.aasist import AASIST_L
from asdf.networks.architectures import KNOWN, Architecture
from asdf.settings.sections import Sections

ARCHITECTURE = "front_end.architecture"
SHAPES = "by the shapes of the layers"
FRONT_END = "front_end.model."
_BLOCK = "back_end.Build_in_Res2Nets."


def network_class(state: Mapping[str, Tensor]) -> str | None:
    """The class of ours whose layers these are, by the names of its back end; None where no class has such layers."""
    back_end = {name.removeprefix("back_end."): tensor for name, tensor in state.items()}
    if {"GAT_layer_S.att_proj.weight", "master1"} <= back_end.keys():
        kind = (
            "AASIST_L"
            if back_end["master1"].shape[-1:] == AASIST_L.sizes.gat_dims[:1]
            else "AASIST"
        )
        return f"SSL_{kind}" if "LL.weight" in back_end else kind
    if {"fc0.weight", "fc1.weight", "fc3.weight"} <= back_end.keys():
        return "SSL_SLS"
    if "Build_in_Res2Nets.0.conv1.weight" in back_end:
        return "SSL_Nes2NetX"
    return None


def architecture_of(path: Path, state: Mapping[str, Tensor]) -> str:
    """The known architecture whose layers have the shapes of the front end's.

    Raises:
        AsdfError: there is none; the message tells what it may be.
    """
    layers = {
        name[len(FRONT_END) :]: tensor
        for name, tensor in state.items()
        if name.startswith(FRONT_END)
    }
    architecture = matching(layers, KNOWN["wav2vec2_xlsr_300m"])
    if architecture.shapes() == {name: tensor.shape for name, tensor in layers.items()}:
        return architecture.to_text()
    raise AsdfError(
        f"{path} has a front end of unknown sizes, and shapes tell neither the number of attention heads nor the order "
        f"of norms. Give {ARCHITECTURE}, a name or a literal. By the shapes it may be:\n"
        f'{ARCHITECTURE}="{_guess(layers).to_text()}"'
    )


def back_end_sizes(
    kind: str, state: Mapping[str, Tensor], settings: Sections
) -> list[tuple[str, Any, str]]:
    """Settings of the back end of the class `kind`: full name, value, and where the value is from.

    Raises:
        ValueError, KeyError, IndexError: the layers have shapes that no such back end has.
    """
    if kind == "SSL_SLS":
        architecture = Architecture.from_text(settings.front_end.architecture)
        hidden, inputs = state["back_end.fc1.weight"].shape
        pooled, samples = (
            inputs // max(architecture.dimension // 3, 1),
            settings.back_end.sls_samples,
        )
        published = architecture.frames(samples) // 3 == pooled
        # Three lengths in frames, and 320 times as many in samples, are pooled to one: the shortest of them.
        samples = samples if published else architecture.min_samples(3 * max(pooled, 1))
        why = (
            "as published"
            if published
            else f"the shortest length that gives the {pooled} times it reads"
        )
        return [("back_end.sls_samples", samples, why), ("back_end.sls_hidden", hidden, SHAPES)]
    if kind == "SSL_Nes2NetX":
        outer = {name[len(_BLOCK) :].partition(".")[0] for name in state if name.startswith(_BLOCK)}
        inner = [
            name
            for name in state
            if name.startswith(f"{_BLOCK}0.convs.") and name.endswith(".weight")
        ]
        width = state[f"{_BLOCK}0.conv1.weight"].shape[0]
        squeeze = max(1, width // max(state[f"{_BLOCK}0.se.se.1.weight"].shape[0], 1))
        pooling = "attentive" if "back_end.pooling.linear1.weight" in state else "mean"
        return [
            ("back_end.nes2net_splits", (len(outer) + 1, len(inner) + 1), SHAPES),
            ("back_end.nes2net_squeeze", squeeze, SHAPES),
            ("back_end.nes2net_pooling", pooling, SHAPES),
            (
                "back_end.nes2net_dilation",
                settings.back_end.nes2net_dilation,
                "as published; no shape tells it",
            ),
        ]
    return []


def _guess(layers: Mapping[str, Tensor]) -> Architecture:
    """A literal for the layers, with the usual strides, heads of 64 values and the norms' order of its kind."""
    convolutions: list[tuple[int, int, int]] = []
    while (name := f"feature_extractor.conv_layers.{len(convolutions)}.conv.weight") in layers:
        channels, _, kernel = layers[name].shape
        convolutions.append((channels, kernel, 2 if convolutions else 5))
    transformer = "encoder.transformer."
    feed_forward = [name for name in layers if name.endswith("intermediate_dense.bias")]
    position = layers.get(f"{transformer}pos_conv_embed.conv.parametrizations.weight.original1")
    if not convolutions or not feed_forward or position is None or position.dim() != 3:
        return KNOWN["tiny"]
    dimension = position.shape[0]
    layer_norm = "feature_extractor.conv_layers.1.layer_norm.weight" in layers
    return Architecture(
        conv_layers=tuple(convolutions),
        extractor_mode="layer_norm" if layer_norm else "group_norm",
        conv_bias="feature_extractor.conv_layers.0.conv.bias" in layers,
        dimension=dimension,
        layers=len(feed_forward),
        heads=next(
            heads for heads in (dimension // 64, 4, 2, 1) if heads and dimension % heads == 0
        ),
        feed_forward=layers[feed_forward[0]].shape[0],
        layer_norm_first=layer_norm,
        pos_conv_kernel=position.shape[2],
        pos_conv_groups=next(
            groups for groups in (dimension // position.shape[1], 1) if dimension % groups == 0
        ),
    )
