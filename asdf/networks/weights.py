"""Loading published weights: into a front end, or into a whole network.

Invariant: after a load every layer holds the file's numbers. A layer that the file lacks, has in another shape, or
has beside the network's own is an error that names it, never a layer left at random or left out. What of a file is
known to be of no use is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.networks.architectures import KNOWN, Architecture
from asdf.networks.download import bundle_architecture, download_bundle
from asdf.networks.fairseq import architecture_told, torchaudio_names
from asdf.networks.weights_file import READABLE, read_weights_file, state_dict_in

TORCHAUDIO = "torchaudio:"
_FIRST_LAYER = "feature_extractor.conv_layers.0."
_PUBLISHED_FRONT_END = "ssl_model.model."
_SHOWN = 6

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FrontEndWeights:
    """A front end's weights: layers by torchaudio's names, and the architecture that they fit."""

    source: str
    architecture: Architecture
    layers: dict[str, Tensor]
    left_out: tuple[str, ...]


def read_front_end_weights(weights: str, expected: Architecture) -> FrontEndWeights:
    """Read what `front_end.weights` names: a checkpoint file, or `torchaudio:NAME`.

    The architecture is the file's where its options tell it. Shapes alone tell neither the number of attention heads
    nor the order of norms: then it is `expected` or else the known one whose layers have these shapes.

    Raises:
        AsdfError: the weights cannot be read or fetched, or are not those of a wav2vec 2.0 front end.
    """
    told = None
    if weights.startswith(TORCHAUDIO):
        name = weights.removeprefix(TORCHAUDIO)
        told = bundle_architecture(name)
        path: str | Path = download_bundle(name)
    else:
        path = weights
    content = read_weights_file(path)
    state, others = _front_end_layers(state_dict_in(content, path), path)
    layers, not_used = torchaudio_names(state)
    try:
        told = told or architecture_told(content)
    except AsdfError as error:
        raise AsdfError(f"weights file {path} cannot be used: {error}") from error
    architecture = told or _matching(layers, expected)
    left_out = (*not_used, *others)
    _log.info("front end: %d layers from %s, %s", len(layers), weights, architecture.to_text())
    if architecture != expected:
        _log.info("front end: the architecture is the file's; front_end.architecture is not used")
    if left_out:
        _log.info("front end: left out of %s: %s", weights, _groups(left_out))
    return FrontEndWeights(weights, architecture, layers, left_out)


def load_detector_weights(network: nn.Module, path: str | Path) -> tuple[str, ...]:
    """Load a whole network's weights: its own state dict, or one published by SSL_Anti-spoofing or AASIST.

    Names that begin with `module.`, as DataParallel saves them, are understood. What SSL_Anti-spoofing calls
    `ssl_model.model.*` becomes `front_end.model.*`, and its other layers `back_end.*`.

    Returns:
        The names of layers that the file holds and the network has no use for.

    Raises:
        AsdfError: the file cannot be read, or does not fit the network layer by layer.
    """
    state = state_dict_in(read_weights_file(path), path)
    left_out: list[str] = []
    if any(name.startswith(_PUBLISHED_FRONT_END) for name in state):
        published = {name: tensor for name, tensor in state.items() if name.startswith(_PUBLISHED_FRONT_END)}
        layers, not_used = torchaudio_names({name[len(_PUBLISHED_FRONT_END) :]: t for name, t in published.items()})
        left_out = [_PUBLISHED_FRONT_END + name for name in not_used]
        back_end = {f"back_end.{name}": tensor for name, tensor in state.items() if name not in published}
        state = {**{f"front_end.model.{name}": tensor for name, tensor in layers.items()}, **back_end}
    load_layers(network, state, str(path))
    if left_out:
        _log.info("left out of %s: %s", path, _groups(left_out))
    return tuple(left_out)


def load_layers(module: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Load every layer of `module`, or none.

    Raises:
        AsdfError: names the layers that are missing, of another shape, or too many.
    """
    own = {name: tensor.shape for name, tensor in module.state_dict().items()}
    missing = [name for name in own if name not in state]
    too_many = [name for name in state if name not in own]
    misshapen = [
        f"{name} ({_size(state[name].shape)} in the file, {_size(shape)} in the network)"
        for name, shape in own.items()
        if name in state and state[name].shape != shape
    ]
    faults = {"missing from the file": missing, "of another shape": misshapen, "without a place": too_many}
    told = [f"{len(names)} {fault}: {_some(names)}" for fault, names in faults.items() if names]
    if told:
        raise AsdfError(
            f"weights {source} do not fit {type(module).__name__}; nothing was loaded. Layers {'; '.join(told)}. "
            f"They are of another architecture (front_end.architecture), or of another kind. {READABLE}."
        )
    module.load_state_dict(dict(state))


def _front_end_layers(state: dict[str, Tensor], path: str | Path) -> tuple[dict[str, Tensor], list[str]]:
    """The front end's layers, without what programs put before their names, and the names of all other layers."""
    prefixes = {name[: name.index(_FIRST_LAYER)] for name in state if _FIRST_LAYER in name}
    if len(prefixes) != 1:
        found = (
            f"{len(prefixes)} of them: {', '.join(sorted(prefixes))}" if prefixes else f"layers {_some(list(state))}"
        )
        raise AsdfError(f"weights file {path} should hold one wav2vec 2.0 front end; it holds {found}. {READABLE}.")
    prefix = prefixes.pop()
    inside = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    return inside, [name for name in state if not name.startswith(prefix)]


def _matching(layers: Mapping[str, Tensor], expected: Architecture) -> Architecture:
    shapes = {name: tensor.shape for name, tensor in layers.items()}
    return next((known for known in (expected, *KNOWN.values()) if known.shapes() == shapes), expected)


def _groups(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(f"{first}.*" if rest else first for first, _, rest in _split(names)))


def _split(names: Iterable[str]) -> list[tuple[str, str, str]]:
    return [name.removeprefix(_PUBLISHED_FRONT_END).partition(".") for name in names]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _size(shape: torch.Size) -> str:
    return "x".join(map(str, shape)) or "a number"
