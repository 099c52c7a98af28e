"""Pretrained weights in a network, loaded after it is built.

Invariant: a network is built with random weights, drawn as without pretrained ones. Every front end
in it then has the weights in its settings, or the build fails. Weights are read before memory is
allocated for the network, so that unusable ones fail early and may determine its architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from torch import nn

from asdf.checkpoint.base_weights import note_base
from asdf.checkpoint.fitting import load_layers
from asdf.errors import AsdfError
from asdf.hub import hub_name
from asdf.interchange.front_end_weights import (
    FrontEndWeights,
    log_normalization,
    read_front_end_weights,
)
from asdf.interchange.named_weights import fetch_weights, pin_weights
from asdf.interchange.transformers_weights import fill_from_folder, read_architecture_text
from asdf.networks.build import build_network, find_network_class
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.transformers_front_end import TransformersFrontEnd
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.networks.ssl_detector import find_front_end_class
from asdf.settings.catalogue import section_types
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Sections

_UNKNOWN = object()


def build_pretrained(settings: Sections, folder: Path | None = None) -> nn.Module:
    """Build the network of the settings, with their pretrained weights.

    Args:
        settings: Settings, as for `build_network`. The network gets them with the weights'
            architecture.
        folder: Folder of the recipe, for modules of your own; it is searched first.

    Raises:
        UsageError, AsdfError: as `build_network` and `load_pretrained`.
    """
    # Scripts may pass the `Settings` singleton, which has the sections but is not a dataclass.
    sections = {name: getattr(settings, name) for name in section_types()}
    settings = Sections(**sections, declared=settings.declared)
    # The weights may determine the architecture, so it is needed before anything is built.
    network_class = find_network_class(settings.network.network_class, folder)
    named = find_front_end_class(settings.front_end, folder)
    # None without a front end, `_UNKNOWN` if no class states it.
    front_end_class: object = named or getattr(network_class, "front_end_class", _UNKNOWN)
    start = _read_before_building(settings.front_end, front_end_class)
    front_end = replace(settings.front_end, architecture=start.architecture, weights=start.source)
    settings = replace(settings, front_end=front_end)
    network = build_network(settings, folder, partial(load_pretrained, already_read=start.weights))
    note_base(network, settings)
    return network


def build_front_end(settings: FrontEndSettings) -> FrontEnd:
    """Build only a front end, with the pretrained weights in its settings.

    This is for scripts: `build_pretrained` does it for complete networks.

    Raises:
        UsageError: the architecture is not known, or has no such layer.
        AsdfError: as `load_pretrained`.
    """
    front_end_class = find_front_end_class(settings) or Wav2Vec2FrontEnd
    start = _read_before_building(settings, front_end_class)
    named = replace(settings, architecture=start.architecture, weights=start.source)
    sections = Sections(front_end=named)
    front_end = front_end_class.from_settings(sections)
    load_pretrained(front_end, start.weights)
    return front_end


def load_pretrained(
    network: nn.Module, already_read: Mapping[str, FrontEndWeights] | None = None
) -> None:
    """Load the initial weights of the front ends in `network` that lack them.

    Args:
        already_read: Weights by their names in `front_end.weights`; others are read.

    Raises:
        UsageError: a front end takes no weights.
        AsdfError: weights cannot be read or downloaded, do not fit layer by layer, or are of
            another architecture than the front end.
    """
    # Front ends that start from one large file share its tensors.
    weights = dict(already_read or {})
    for module in network.modules():
        if not isinstance(module, FrontEnd) or module.unloaded_weights is None:
            continue
        source = module.unloaded_weights
        if isinstance(module, TransformersFrontEnd):
            fill_from_folder(module, source)
        elif module.weights_reader:
            import_module(module.weights_reader).fill(module, source)
        elif not isinstance(module, Wav2Vec2FrontEnd):
            module.load_weights(fetch_weights(source))
        else:
            if source not in weights:
                weights[source] = read_front_end_weights(source, module.architecture)
            _fill_front_end(module, weights[source])
        if hub_name(source) is not None:
            module.pretrained = source
        module.unloaded_weights = None


@dataclass(frozen=True)
class _Start:
    """Facts that are known before a network is built.

    Attributes:
        architecture: Architecture of its front end, as in `front_end.architecture`.
        source: Value of `front_end.weights`, with a commit if it is on the hub.
        weights: Weights that were read already, by `source`.
    """

    architecture: str
    source: str | None
    weights: Mapping[str, FrontEndWeights]


def _read_before_building(settings: FrontEndSettings, front_end_class: object) -> _Start:
    """Read the weights, or only their architecture, if a front end takes them."""
    unread = _Start(settings.architecture, settings.weights, {})
    kind = front_end_class if isinstance(front_end_class, type) else type(None)
    if issubclass(kind, TransformersFrontEnd):
        return _name_architecture(settings)
    if settings.weights is None:
        return unread
    if front_end_class is _UNKNOWN:
        # A user's class of any kind may read front_end.weights by itself.
        with suppress(AsdfError):
            return _read(settings, settings.weights)
        return unread
    if not issubclass(kind, FrontEnd):
        return unread
    source = pin_weights(settings.weights)
    if issubclass(kind, Wav2Vec2FrontEnd):
        return _read(settings, source)
    if kind.weights_reader:
        reader = import_module(kind.weights_reader)
        if hasattr(reader, "architecture"):
            return _Start(reader.architecture(source), source, {})
    return replace(unread, source=source)


def _name_architecture(settings: FrontEndSettings) -> _Start:
    """Return the configuration of the weights, or of the repository if there are none."""
    if settings.weights is not None:
        source = pin_weights(settings.weights)
        return _Start(read_architecture_text(source), source, {})
    if hub_name(settings.architecture) is None:
        return _Start(settings.architecture, None, {})
    return _Start(read_architecture_text(settings.architecture), None, {})


def _read(settings: FrontEndSettings, named: str) -> _Start:
    source = pin_weights(named)
    expected = Architecture.from_text(settings.architecture)
    weights = read_front_end_weights(source, expected)
    return _Start(weights.architecture.to_text(), source, {source: weights})


def _fill_front_end(front_end: Wav2Vec2FrontEnd, weights: FrontEndWeights) -> None:
    if weights.architecture != front_end.architecture:
        raise AsdfError(
            f"weights {weights.source} have the architecture {weights.architecture.to_text()}, but "
            f"the front end was built as {front_end.architecture.to_text()}. Build it with "
            "front_end.architecture set to that of the weights."
        )
    load_layers(front_end.model, weights.layers, weights.source)
    log_normalization(weights.source, weights.normalized, front_end.normalize_waveforms)
    if front_end.masking is not None and weights.mask_embedding is not None:
        front_end.masking.load_embedding(weights.mask_embedding)
