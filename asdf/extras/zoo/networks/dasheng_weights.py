"""Weights of Dasheng as its authors publish them: a folder of the hub, or the package's file.

Invariant: every layer is a layer of the front end, or is known to be irrelevant for features and
logged. No code of a folder is executed: the configuration and the layers suffice.

Source: mispeech/dasheng-base and its larger ones on the hub, of the model type 'dasheng', whose
configuration has `encoder_kwargs`; the package dasheng, whose files are
`{"model": ..., "config": ...}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.fitting import by_module, load_layers
from asdf.checkpoint.safetensors_network import CONFIG
from asdf.checkpoint.weights_file import read_json, read_weights_file
from asdf.errors import AsdfError
from asdf.extras.zoo.networks.dasheng import BANDS, WINDOW, DashengFrontEnd, DashengSizes
from asdf.interchange import hugging_face
from asdf.interchange.named_weights import fetch_weights
from asdf.networks.front_ends.encoder_inputs import HOP
from asdf.runs.log import LOG

_PREFIX = "encoder."
_POSITIONS = "time_pos_embed"
_NAMES = (_POSITIONS, "freq_pos_embed", "patch_embed.proj.weight", "init_bn.1.weight")
_THEIR_NORM = "init_bn.1."
_OUR_NORM = "band_norm."
# The filter bank, which follows from the sizes; batch counts; and the layers after the encoder.
_OF_NO_USE = ("front_end.", "init_bn.1.num_batches_tracked", "outputlayer.", "decoder.")
# Arguments of the authors' loaders that files do not state.
_HEADS = {768: 12, 1280: 16, 1536: 24}
# Required values, because with others the same layers would give other features.
_REQUIRED: dict[str, Any] = {
    "patch_size": [BANDS, 4],
    "patch_stride": [BANDS, 4],
    "n_mels": BANDS,
    "hop_size": HOP,
    "win_size": WINDOW,
    "n_fft": WINDOW,
    "f_min": 0,
    "f_max": 8000,
    "center": True,
    "top_db": 120,
    "qkv_bias": True,
    "pooling": "mean",
    "init_values": None,
    "init_bn": True,
}


def is_dasheng(state: Mapping[str, Any]) -> bool:
    """Return whether layers have the names of Dasheng's."""
    if _PREFIX + _POSITIONS in state:
        start = _PREFIX
    else:
        start = ""
    return all(start + name in state for name in _NAMES)


def architecture(weights: str) -> str:
    """Return the value of `front_end.architecture` for the given weights.

    Raises:
        AsdfError: the folder or file cannot be read or downloaded, or is not of Dasheng.
    """
    sizes, layers, _ = _read(weights)
    _check_claims(sizes, layers, weights)
    return sizes.to_text()


def fill(front_end: DashengFrontEnd, weights: str) -> None:
    """Load published weights into a front end of the same sizes.

    Raises:
        AsdfError: the weights cannot be read or downloaded, are not of Dasheng, or do not fit.
    """
    sizes, layers, left_out = _read(weights)
    if sizes != front_end.sizes:
        raise AsdfError(
            f"weights {weights} are a Dasheng of other sizes than the front end was built with. "
            f"Set front_end.architecture = {sizes.to_text()!r}."
        )
    LOG.info("front end: %d layers from %s", len(layers), weights)
    if left_out:
        LOG.info("front end: not loaded from %s: %s", weights, by_module(left_out))
    load_layers(front_end.model, layers, weights)


def _read(weights: str) -> tuple[DashengSizes, dict[str, Tensor], list[str]]:
    """Return the sizes, layers under our names, and names of layers irrelevant for features."""
    path = Path(fetch_weights(weights))
    folder = hugging_face.folder_of(path)
    if folder is not None:
        state: Any = hugging_face.read_state(path)
        config = read_json(folder / CONFIG)
        if config.get("model_type") != "dasheng":
            raise AsdfError(
                f"{folder / CONFIG} is of the model type {config.get('model_type')!r}, not Dasheng."
            )
        stated = config.get("encoder_kwargs")
    else:
        content = read_weights_file(path)
        stated = content.get("config")
        state = content.get("model")
    if not isinstance(state, Mapping) or not is_dasheng(state) or not isinstance(stated, Mapping):
        raise AsdfError(
            f"weights {weights} are not Dasheng's: a folder of the hub has encoder_kwargs in "
            f"{CONFIG}, a file of the package dasheng 'model' and 'config', and both have layers "
            "such as time_pos_embed. Name a folder, a file such as dasheng_base.pt, or a "
            "repository such as 'mispeech/dasheng-base'."
        )
    layers, left_out = _our_layers(state)
    return _sizes_of(stated, layers, weights), layers, left_out


def _our_layers(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    layers = {}
    left_out = []
    for name, tensor in state.items():
        inner = name.removeprefix(_PREFIX)
        if inner.startswith(_OF_NO_USE):
            left_out.append(name)
        elif inner.startswith(_THEIR_NORM):
            layers[_OUR_NORM + inner.removeprefix(_THEIR_NORM)] = tensor
        else:
            layers[inner] = tensor
    return layers, left_out


def _sizes_of(
    config: Mapping[str, Any], layers: Mapping[str, Tensor], weights: str
) -> DashengSizes:
    for name, value in _REQUIRED.items():
        stated = config.get(name, value)
        # The package's files state tuples, a config.json lists.
        if (list(stated) if isinstance(stated, tuple) else stated) != value:
            raise AsdfError(
                f"weights {weights} have {name} = {stated!r} in their configuration; ASDF supports "
                f"{value!r}."
            )
    usual = DashengSizes()
    try:
        dimension = int(config.get("embed_dim", usual.dimension))
        sizes = DashengSizes(
            layers=int(config.get("depth", usual.layers)),
            dimension=dimension,
            heads=int(config.get("num_heads", _HEADS.get(dimension, usual.heads))),
            feed_forward=int(dimension * float(config.get("mlp_ratio", 4.0))),
            positions=layers[_POSITIONS].shape[-1],
        )
        sizes.check()
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise AsdfError(f"the configuration of {weights} is invalid: {error}.") from error
    return sizes


def _check_claims(sizes: DashengSizes, layers: Mapping[str, Tensor], weights: str) -> None:
    """Compare the sizes with the layers before memory is allocated for the network.

    Raises:
        AsdfError: the layers have other sizes.
    """
    blocks = {name.split(".")[1] for name in layers if name.startswith("blocks.")}
    first = layers.get("blocks.0.mlp.fc1.weight")
    shape = None if first is None else tuple(first.shape)
    if len(blocks) != sizes.layers or shape != (sizes.feed_forward, sizes.dimension):
        raise AsdfError(
            f"the configuration of {weights} states {sizes.layers:,} layers of {sizes.dimension:,} "
            f"and {sizes.feed_forward:,} values, but its weights have {len(blocks):,} layers, the "
            f"first of {shape}. They are damaged, or from another network."
        )
