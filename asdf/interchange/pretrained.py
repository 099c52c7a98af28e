"""Pretrained weights in a network, loaded after it is built.

Invariant: a network is built with random weights, drawn as without pretrained ones. Every front end
in it then has the weights in its settings, or the build fails. Weights are read before memory is
allocated for the network, so that unusable ones fail early and may determine its architecture.
Every layer of a folder of transformers is a layer of the front end, or is known to be irrelevant
for features and logged; no code in its files is executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from asdf.checkpoint.base_weights import by_module, first_names, load_layers, note_base
from asdf.checkpoint.network_reading import CONFIG
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError
from asdf.hub import hub_name
from asdf.interchange import hugging_face
from asdf.interchange.front_end_weights import (
    FrontEndWeights,
    fetch_configuration,
    fetch_weights,
    log_normalization,
    pin_weights,
    read_front_end_weights,
)
from asdf.networks.build import build_network, find_network_class
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.transformers_config import (
    EXTRACTOR,
    config_text,
    read_config,
    recorded_settings,
)
from asdf.networks.front_ends.transformers_front_end import TransformersFrontEnd
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.networks.ssl_detector import find_front_end_class
from asdf.runs.log import LOG
from asdf.settings.catalogue import section_types
from asdf.settings.front_end_values import missing_weights
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Sections

MASK_EMBEDDING = "masked_spec_embed"
_UNKNOWN = object()
# Layers of pretraining, and those after the encoder in fine-tuned networks.
_NOT_USED = re.compile(
    rf"(?:.*\.)?{MASK_EMBEDDING}$|(quantizer|project_q|project_hid|lm_head|classifier|projector|adapter"
    r"|layer_weights|tdnn|objective|intermediate_ffn|speaker_proj|label_embeddings_concat)\b"
)


@dataclass
class ChosenLayers:
    """A folder's layers by the front end's names, and those that it does not use.

    Attributes:
        mask_embedding: Vector of masked frames, (dimension,); None if there is none.
    """

    used: dict[str, Tensor]
    left_out: list[str]
    mask_embedding: Tensor | None = None


def read_architecture_text(weights: str) -> str:
    """Return the value of `front_end.architecture` of the model in a folder, or on the hub.

    Raises:
        AsdfError: there is no such folder, or its configuration is of no known kind.
    """
    return architecture_text_of(find_folder(fetch_configuration(weights)))


def architecture_text_of(folder: Path) -> str:
    """Return the value of `front_end.architecture` of the model in a folder.

    Raises:
        AsdfError: its configuration is of no known kind.
    """
    # Parsed by the safe reader, but returned as text.
    read_json(folder / CONFIG)
    config = read_config((folder / CONFIG).read_text(encoding="utf-8"))
    if (folder / hugging_face.PREPROCESSOR).is_file():
        extractor = recorded_settings(read_json(folder / hugging_face.PREPROCESSOR))
        if extractor:
            config[EXTRACTOR] = extractor
    return config_text(config)


def fill_from_folder(front_end: TransformersFrontEnd, weights: str) -> None:
    """Load the weights of a folder into a front end of the same configuration.

    Raises:
        AsdfError: there is no such folder, its files cannot be read, or they do not fit.
    """
    path = Path(fetch_weights(weights))
    folder = find_folder(str(path))
    if architecture_text_of(folder) != front_end.architecture_setting:
        raise AsdfError(
            f"weights {weights} have another configuration than the front end was built with. "
            "Build it with asdf.interchange.build_pretrained(settings), or with "
            "front_end.architecture set to the text of their config.json."
        )
    layers = choose_layers(hugging_face.read_state(path), front_end, weights)
    LOG.info("front end: %d layers from %s", len(layers.used), weights)
    if layers.left_out:
        LOG.info("front end: not loaded from %s: %s", weights, by_module(layers.left_out))
    load_layers(front_end.model, layers.used, weights)
    if front_end.takes_waveforms:
        normalized = hugging_face.normalizes(folder)
        log_normalization(weights, normalized, front_end.normalize_waveforms)
    if front_end.masking is not None and layers.mask_embedding is not None:
        front_end.masking.load_embedding(layers.mask_embedding)


def find_folder(weights: str) -> Path:
    """Return the folder of a model, from its path or that of its weights.

    Raises:
        AsdfError: there is none, or it has no configuration.
    """
    path = Path(weights)
    if not path.exists():
        raise AsdfError(missing_weights(path))
    folder = hugging_face.folder_of(path)
    if folder is None:
        raise AsdfError(
            f"cannot read weights from {path}: front_end.front_end_class = 'transformers' needs a "
            f"Hugging Face folder with its {CONFIG}. For checkpoints of other programs leave "
            "front_end.front_end_class at None."
        )
    return folder


def choose_layers(
    state: Mapping[str, Tensor], front_end: TransformersFrontEnd, weights: str
) -> ChosenLayers:
    """Return the layers of a folder by the names of a front end, which may have no weights.

    Args:
        weights: Name of the folder in messages.

    Raises:
        AsdfError: they contain no such encoder, or several.
    """
    names = front_end.model.state_dict().keys()
    renamings = find_renamings(front_end.model)
    first = next(iter(names))
    # The prefix of the encoder's names, such as 'wav2vec2.' in fine-tuned networks.
    prefixes = [name.removesuffix(first) for name in state if f".{name}".endswith(f".{first}")]
    if len(prefixes) != 1:
        raise AsdfError(
            f"weights {weights} should hold one encoder with a layer {first}; they hold "
            f"{len(prefixes)} of them. Layers are {first_names(list(state))}."
        )
    (prefix,) = prefixes
    # Layers above `front_end.layer` are not built, so the file has more.
    built = len(front_end.layer_modules())
    in_layer = re.compile(rf"{re.escape(front_end.outline.layers)}\.(\d+)\.")
    layers = ChosenLayers({}, [])
    for full_name, tensor in state.items():
        name = full_name.removeprefix(prefix)
        if name not in names:
            for renaming in renamings:
                name, _ = renaming.rename_source_key(name)
            for old, new in hugging_face.OLD_NAMES.items():
                name = name.removesuffix(old) + new if name.endswith(old) else name
        number = in_layer.match(name)
        is_above = number is not None and built <= int(number[1]) < front_end.encoder_layers
        if not full_name.startswith(prefix) or is_above or _NOT_USED.match(name):
            layers.left_out.append(full_name)
        else:
            layers.used[name] = tensor
        if name.rpartition(".")[2] == MASK_EMBEDDING:
            layers.mask_embedding = tensor
    return layers


def find_renamings(model: Any) -> list[Any]:
    """Return transformers' rules for names in files that differ from those of the network."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightRenaming
    except ImportError:
        # In such a version, networks have the names in their files.
        return []
    # Rules that compute, for example to join experts in one tensor, do not apply to audio encoders.
    rules = get_model_conversion_mapping(model)
    return [rule for rule in rules if isinstance(rule, WeightRenaming)]


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
    front_end, weights = _read_before_building(settings.front_end, front_end_class)
    settings = replace(settings, front_end=front_end)
    network = build_network(settings, folder, partial(load_pretrained, already_read=weights))
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
    settings, weights = _read_before_building(settings, front_end_class)
    front_end = front_end_class.from_settings(Sections(front_end=settings))
    load_pretrained(front_end, weights)
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
        elif not isinstance(module, Wav2Vec2FrontEnd):
            module.load_weights(fetch_weights(source))
        else:
            if source not in weights:
                weights[source] = read_front_end_weights(source, module.architecture)
            _fill_front_end(module, weights[source])
        if hub_name(source) is not None:
            module.pretrained = source
        module.unloaded_weights = None


def _read_before_building(
    settings: FrontEndSettings, front_end_class: object
) -> tuple[FrontEndSettings, dict[str, FrontEndWeights]]:
    """Read the weights, or only their architecture, if a front end takes them.

    Returns:
        Settings with the architecture of the weights, and their commit if they are on the hub; and
        weights that were read already, by their names in `front_end.weights`.
    """
    kind = front_end_class if isinstance(front_end_class, type) else type(None)
    if issubclass(kind, TransformersFrontEnd):
        # The configuration of the weights, or of a repository without using its weights.
        source = None if settings.weights is None else pin_weights(settings.weights)
        named = source or settings.architecture
        if source is None and hub_name(named) is None:
            return settings, {}
        return replace(settings, architecture=read_architecture_text(named), weights=source), {}
    if settings.weights is None:
        return settings, {}
    if front_end_class is _UNKNOWN:
        # A user's class of any kind may read front_end.weights by itself.
        with suppress(AsdfError):
            return _read(settings, settings.weights)
        return settings, {}
    if not issubclass(kind, FrontEnd):
        return settings, {}
    if issubclass(kind, Wav2Vec2FrontEnd):
        return _read(settings, settings.weights)
    source = pin_weights(settings.weights)
    architecture = kind.architecture_of(source) or settings.architecture
    return replace(settings, architecture=architecture, weights=source), {}


def _read(
    settings: FrontEndSettings, named: str
) -> tuple[FrontEndSettings, dict[str, FrontEndWeights]]:
    source = pin_weights(named)
    weights = read_front_end_weights(source, Architecture.from_text(settings.architecture))
    architecture = weights.architecture.to_text()
    return replace(settings, architecture=architecture, weights=source), {source: weights}


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
