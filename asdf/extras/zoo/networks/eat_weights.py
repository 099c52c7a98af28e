"""Weights of EAT as its authors publish them on the hub: a folder with a configuration.

Invariant: every layer of the folder is a layer of the front end, or is known to be irrelevant for
features and logged. Its code is not executed: the configuration and the layers suffice.

Source: cwx-worst-one/EAT's networks for transformers, of the model type 'eat'.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from asdf.checkpoint.fitting import by_module, load_layers
from asdf.checkpoint.safetensors_network import CONFIG
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError
from asdf.extras.zoo.networks.eat import EATFrontEnd, EATSizes
from asdf.extras.zoo.networks.patches import BANDS
from asdf.interchange import hugging_face
from asdf.interchange.named_weights import fetch_configuration, fetch_weights
from asdf.runs.log import LOG

_PREFIX = "model."
_BLOCKS = "model.blocks."
_POSITIONS = "fixed_positional_encoder.positions"
# Prefixes of the layers after the encoder in fine-tuned networks.
_HEADS = ("fc_norm.", "head.")
# Required values, because with others the same layers would give other features.
_REQUIRED = {
    "stride": 16,
    "patch_size": 16,
    "in_chans": 1,
    "mel_bins": BANDS,
    "layer_norm_first": False,
    "norm_eps": 1e-6,
    "norm_affine": True,
    "qkv_bias": True,
    "fixed_positions": True,
}
_TOLERANCE = 1e-3


def architecture(weights: str) -> str:
    """Return the value of `front_end.architecture` of the network in a folder, or on the hub.

    Raises:
        AsdfError: there is no such folder, or it is not of EAT.
    """
    sizes = _read_sizes(_folder_of(fetch_configuration(weights)))
    _check_claims(sizes, hugging_face.read_state(Path(fetch_weights(weights))), weights)
    return sizes.to_text()


def fill(front_end: EATFrontEnd, weights: str) -> None:
    """Load a published folder into a front end of the same sizes.

    Raises:
        AsdfError: the folder cannot be read or downloaded, is not of EAT, or does not fit.
    """
    path = Path(fetch_weights(weights))
    sizes = _read_sizes(_folder_of(str(path)))
    if sizes != front_end.sizes:
        raise AsdfError(
            f"weights {weights} are an EAT of other sizes than the front end was built with. Set "
            f"front_end.architecture = {sizes.to_text()!r}."
        )
    layers = {}
    left_out = []
    for name, tensor in hugging_face.read_state(path).items():
        inner = name.removeprefix(_PREFIX)
        if inner.startswith(_HEADS):
            left_out.append(name)
        elif inner == _POSITIONS:
            _check_positions(tensor, front_end, weights)
        else:
            layers[inner] = tensor
    LOG.info("front end: %d layers from %s", len(layers), weights)
    if left_out:
        LOG.info("front end: not loaded from %s: %s", weights, by_module(left_out))
    load_layers(front_end.model, layers, weights)


def _check_claims(sizes: EATSizes, state: Mapping[str, Tensor], weights: str) -> None:
    """Compare the sizes with the layers before memory is allocated for the network.

    Raises:
        AsdfError: the layers have other sizes.
    """
    blocks = {name.split(".")[2] for name in state if name.startswith(_BLOCKS)}
    first = state.get(f"{_BLOCKS}0.mlp.fc1.weight")
    shape = None if first is None else tuple(first.shape)
    if len(blocks) != sizes.layers or shape != (sizes.feed_forward, sizes.dimension):
        raise AsdfError(
            f"the configuration of {weights} states {sizes.layers:,} layers of {sizes.dimension:,} "
            f"and {sizes.feed_forward:,} values, but its weights have {len(blocks):,} layers, the "
            f"first of {shape}. They are damaged, or from another network."
        )


def _folder_of(path: str) -> Path:
    folder = hugging_face.folder_of(Path(path))
    if folder is None:
        raise AsdfError(
            f"weights {path} are not a folder of EAT: it contains no {CONFIG}. Name a folder, or a "
            "repository of the hub such as 'worstchan/EAT-base_epoch30_pretrain'."
        )
    return folder


def _read_sizes(folder: Path) -> EATSizes:
    path = folder / CONFIG
    config = read_json(path)
    if config.get("model_type") != "eat":
        raise AsdfError(f"{path} is of the model type {config.get('model_type')!r}, not EAT.")
    for name, value in _REQUIRED.items():
        if config.get(name, value) != value:
            raise AsdfError(f"{path} has {name} = {config[name]!r}; ASDF supports {value!r}.")
    try:
        usual = EATSizes()
        dimension = int(config.get("embed_dim", usual.dimension))
        sizes = EATSizes(
            layers=int(config.get("depth", usual.layers)),
            dimension=dimension,
            heads=int(config.get("num_heads", usual.heads)),
            feed_forward=int(dimension * float(config.get("mlp_ratio", 4.0))),
        )
        sizes.check()
    except (ValueError, TypeError, OverflowError) as error:
        raise AsdfError(f"{path} is invalid: {error}.") from error
    return sizes


def _check_positions(positions: Tensor, front_end: EATFrontEnd, weights: str) -> None:
    """Check that the file's fixed positions follow the formula.

    Raises:
        AsdfError: they do not.
    """
    columns = positions.shape[1] // front_end.per_step
    with torch.no_grad():
        ours = front_end.model.positions(columns)
    # A network of which only the shapes are built has no numbers to compare.
    if ours.is_meta:
        return
    is_alike = positions.shape[1:] == ours.shape
    if not is_alike or (positions[0].float() - ours.cpu()).abs().max() > _TOLERANCE:
        raise AsdfError(f"weights {weights} have positions other than EAT's sines and cosines.")
