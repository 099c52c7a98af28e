"""Pretrained weights of a front end from fairseq, Hugging Face, torchaudio, or a detector.

Invariant: every layer of the file is a layer of the front end, or is known to be irrelevant for
features and logged; any other layer keeps its name, so that the check of layers reports it.

Resolution of `front_end.weights`: a path, a torchaudio bundle, or a repository on the hub.

Invariant: one function turns a name on the hub into the path of its files. A network is built from
one commit: `pin_weights` adds it to the name before anything is read, and the network's files state
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from asdf.checkpoint.base_weights import (
    ANTIDEEPFAKE_FRONT_END,
    by_module,
    check_layers,
    first_names,
)
from asdf.checkpoint.network_reading import CONFIG, read_safetensors
from asdf.checkpoint.network_reading import WEIGHTS as SAFETENSORS
from asdf.checkpoint.weights_file import READABLE, check_tensors, read_weights_file, state_dict_in
from asdf.errors import AsdfError
from asdf.hub import download_folder, download_network, explained, hub_name, look_up, network_files
from asdf.interchange import fairseq, hugging_face
from asdf.interchange.bundles import bundle_architecture, bundle_normalizes, download_bundle
from asdf.interchange.hugging_face import PREPROCESSOR
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.ports import load, provided
from asdf.runs.log import LOG
from asdf.settings.front_end_values import BUNDLE, missing_weights


def names_path(weights: str) -> bool:
    """Whether `front_end.weights` is the path of a file or folder.

    Raises:
        UsageError: as `hub_name`.
    """
    return not weights.startswith(BUNDLE) and hub_name(weights) is None


def pin_weights(weights: str) -> str:
    """Return a name on the hub with its current commit; return other names unchanged.

    Raises:
        UsageError, AsdfError: as `asdf.hub.look_up`.
    """
    name = hub_name(weights)
    return weights if name is None else str(look_up(name).name)


def fetch_weights(weights: str) -> str:
    """Return the path of `front_end.weights`, downloading it if it is on the hub.

    Raises:
        UsageError, AsdfError: the repository does not exist on the hub, contains no weights, or
            cannot be downloaded.
    """
    name = hub_name(weights)
    return weights if name is None else str(download_network(name))


def fetch_configuration(weights: str) -> str:
    """Return the path of the folder with the configuration of the weights, without the weights.

    Raises:
        UsageError, AsdfError: as `fetch_weights`.
    """
    name = hub_name(weights)
    return weights if name is None else str(download_folder(name, (CONFIG, PREPROCESSOR)))


def bytes_to_fetch(weights: str) -> int:
    """Return how many bytes `fetch_weights` would download, without downloading them.

    Raises:
        UsageError, AsdfError: as `fetch_weights`.
    """
    name = hub_name(weights)
    if name is None:
        return 0
    contents = look_up(name)
    # The cache may hold the configuration alone, and the hub be out of reach.
    with explained(name):
        return contents.bytes_missing(network_files(contents))


MASK_EMBEDDING = ("mask_emb", "masked_spec_embed")  # as fairseq and transformers call it
# fairseq, transformers and torchaudio agree on this name, after any prefix.
_FIRST_LAYER = "feature_extractor.conv_layers.0."


@dataclass(frozen=True)
class FrontEndWeights:
    """A front end's weights: layers by torchaudio's names, with a matching architecture.

    Attributes:
        source: Name of the weights in `front_end.weights`.
        left_out: Names of the file's layers that are irrelevant for features.
        mask_embedding: Vector of masked frames in pretraining, (dimension,); None if the file has
            none.
        normalized: Whether it was trained on waveforms of zero mean and unit variance; None if
            unknown.
    """

    source: str
    architecture: Architecture
    layers: dict[str, Tensor]
    left_out: tuple[str, ...]
    mask_embedding: Tensor | None = None
    normalized: bool | None = None


@dataclass(frozen=True)
class _Source:
    """The content of a file, a folder or a bundle: named tensors, and facts about the network."""

    state: dict[str, Tensor]
    architecture: Architecture | None
    normalized: bool | None


def read_front_end_weights(weights: str, expected: Architecture) -> FrontEndWeights:
    """Read `front_end.weights`: a path, `torchaudio:NAME`, or a repository on the hub.

    The architecture is that of the file's options, if it has any. Shapes alone determine neither
    the number of attention heads nor the order of norms; without options, it is `expected`, or else
    the known architecture with these shapes.

    Raises:
        AsdfError: the weights cannot be read or downloaded, or are not those of a known kind of
            front end.
    """
    source = _read_source(weights)
    original_layers, others = _front_end_layers(source.state, weights)
    layers, not_used = rename_front_end(original_layers)
    architecture = source.architecture
    if architecture is None:
        architecture = matching_architecture(layers, expected)
    else:
        _check_claims(architecture, layers, weights)
    # Not an error: detectors and fine-tuned networks have other layers besides the front end's.
    left_out = (*not_used, *others)
    LOG.info("front end: %d layers from %s, %s", len(layers), weights, architecture.to_text())
    if architecture != expected:
        LOG.info("front end: the file states the architecture; front_end.architecture is ignored")
    if left_out:
        LOG.info("front end: not loaded from %s: %s", weights, by_module(left_out))
    # The vector of masked frames, by either program's name.
    masks = [original_layers[name] for name in MASK_EMBEDDING if name in original_layers]
    mask_embedding = masks[0] if masks else None
    return FrontEndWeights(
        weights, architecture, layers, left_out, mask_embedding, source.normalized
    )


def _check_claims(architecture: Architecture, layers: Mapping[str, Tensor], source: str) -> None:
    """Compare a file's architecture with its layers before memory is allocated for the network.

    Raises:
        AsdfError: the architecture has other layers.
    """
    convolutions = len(architecture.conv_layers)
    # Each layer has at least one tensor. Checked before the shapes, which are slow for a million
    # layers.
    if max(architecture.layers, convolutions) > len(layers):
        raise AsdfError(
            f"weights {source} state {architecture.layers:,} encoder layers and {convolutions:,} "
            f"convolutions, but hold {len(layers):,} tensors. They are damaged."
        )
    try:
        shapes = architecture.shapes()
    # torch raises it for a tensor whose size overflows.
    except RuntimeError as error:
        raise AsdfError(
            f"weights {source} state impossible sizes, {architecture.to_text()}."
        ) from error
    check_layers(shapes, layers, "the architecture that they name", source)


def rename_front_end(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Rename a front end's layers from fairseq's or Hugging Face's names to torchaudio's.

    Returns:
        Layers, and names of those that features do not depend on.
    """
    if hugging_face.is_hugging_face(state):
        return hugging_face.torchaudio_names(state)
    return fairseq.torchaudio_names(state)


def log_normalization(source: str, trained: bool | None, normalizes: bool) -> None:
    """Log that waveforms reach the front end differently than in pretraining.

    Args:
        source: Name of the weights in `front_end.weights`.
        trained: Whether they were trained on normalised waveforms; None if unknown.
        normalizes: Whether the front end normalises.
    """
    if trained is None or trained == normalizes:
        return
    waveforms = "of zero mean and unit variance" if trained else "as they are"
    LOG.info(
        "front end: %s was trained on waveforms %s; front_end.normalize_waveforms = %s matches its "
        "training",
        source,
        waveforms,
        trained,
    )


def _read_source(weights: str) -> _Source:
    if weights.startswith(BUNDLE):
        bundle = weights.removeprefix(BUNDLE)
        # Checked before the download, so that an unknown name causes none.
        bundle_of = bundle_architecture(bundle)
        file = download_bundle(bundle)
        state = state_dict_in(read_weights_file(file), file)
        return _Source(state, bundle_of, bundle_normalizes(bundle))
    path = Path(fetch_weights(weights))
    if not path.exists():
        raise AsdfError(missing_weights(path))
    antideepfake = read_antideepfake(path)
    if antideepfake is not None:
        return _Source(antideepfake, None, True)
    folder = hugging_face.folder_of(path)
    if folder:
        # The configuration first: an unsupported architecture fails before gigabytes are read.
        architecture = hugging_face.read_architecture(folder)
        state = hugging_face.read_state(path)
        return _Source(state, architecture, hugging_face.normalizes(folder))
    if path.is_dir() or path.suffix == ".safetensors" or path.name.endswith(".index.json"):
        where = "in it" if path.is_dir() else "next to it"
        raise AsdfError(
            f"cannot read weights from {path}: there is no {CONFIG} {where}, which states the "
            "architecture. Name a Hugging Face folder with its configuration, or a checkpoint file."
        )
    return _read_checkpoint(path)


def _read_checkpoint(path: Path) -> _Source:
    content = read_weights_file(path)
    try:
        architecture = fairseq.architecture_from_options(content)
    # The reader of options does not know the file's name.
    except AsdfError as error:
        raise AsdfError(f"weights file {path} cannot be used: {error}") from error
    state = state_dict_in(content, path)
    normalized = True if is_antideepfake(state) else fairseq.normalizes(content)
    return _Source(state, architecture, normalized)


def _front_end_layers(
    state: dict[str, Tensor], path: str | Path
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the front end's layers without prefixes, and the names of all others."""
    prefixes = {name[: name.index(_FIRST_LAYER)] for name in state if _FIRST_LAYER in name}
    for front_end, is_of in provided("ENCODERS").items():
        if load(is_of)(state):
            raise AsdfError(
                f"weights file {path} is not of the wav2vec 2.0 family. Set "
                f"front_end.front_end_class = {front_end!r}."
            )
    if len(prefixes) != 1:
        content = f"layers {first_names(list(state))}"
        if prefixes:
            content = f"{len(prefixes)} of them: {', '.join(sorted(prefixes))}"
        raise AsdfError(
            f"weights file {path} should hold one wav2vec 2.0 front end; it holds {content}. "
            f"{READABLE}."
        )
    prefix = prefixes.pop()
    layers = {}
    others = []
    for name, tensor in state.items():
        if name.startswith(prefix):
            layers[name.removeprefix(prefix)] = tensor
        else:
            others.append(name)
    return layers, others


def matching_architecture(layers: Mapping[str, Tensor], expected: Architecture) -> Architecture:
    """Return `expected` or a known architecture with layers of these shapes, else `expected`."""
    shapes = {name: tensor.shape for name, tensor in layers.items()}
    # `expected` first: known ones may have the same shapes and differ in other properties.
    for architecture in (expected, *KNOWN.values()):
        if architecture.shapes() == shapes:
            return architecture
    return expected


def is_antideepfake(names: Iterable[str]) -> bool:
    """Whether these are names of layers in AntiDeepfake's layout."""
    return any(name.startswith(ANTIDEEPFAKE_FRONT_END) for name in names)


def read_antideepfake(path: Path) -> dict[str, Tensor] | None:
    """Return the layers of a safetensors file in this layout, or of a folder with such a file.

    The result is None without such a file, or for other layer names. A folder's config.json is not
    read: the layers alone identify the network.

    Raises:
        AsdfError: the file is damaged.
    """
    file = path / SAFETENSORS if path.is_dir() else path
    if file.suffix != ".safetensors" or not file.is_file():
        return None
    state, _ = read_safetensors(file)
    if not is_antideepfake(state):
        return None
    check_tensors(state, file)
    return state
