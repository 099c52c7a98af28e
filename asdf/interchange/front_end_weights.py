"""Pretrained weights of a front end from fairseq, Hugging Face, torchaudio, or a detector.

Invariant: every layer of the file is a layer of the front end, or is known to be irrelevant for
features and logged; any other layer keeps its name, so that the check of layers reports it.

One function turns a name on the hub into the path of its files. A network is built from one commit:
`pin_weights` adds it to the name before anything is read, and the network's files state it.

Torch's own cache holds only complete networks of torchaudio. It publishes no checksums, so a file
counts if the checksums of its records are correct and it has the bundle's layers with their shapes;
a cached one is checked at each use.
"""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from glob import escape
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torchaudio
from torch import Tensor
from torchaudio.pipelines import Wav2Vec2Bundle

from asdf.checkpoint.base_weights import (
    ANTIDEEPFAKE_FRONT_END,
    by_module,
    check_layers,
    compare_layers,
    first_names,
)
from asdf.checkpoint.network_reading import CONFIG, read_safetensors
from asdf.checkpoint.network_reading import WEIGHTS as SAFETENSORS
from asdf.checkpoint.weights_file import READABLE, check_tensors, read_weights_file, state_dict_in
from asdf.errors import AsdfError, UsageError
from asdf.hub import download_folder, download_network, explained, hub_name, look_up, network_files
from asdf.interchange import fairseq, hugging_face
from asdf.interchange.hugging_face import PREPROCESSOR
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.ports import load, provided
from asdf.runs.files import one_at_a_time
from asdf.runs.log import LOG
from asdf.settings.front_end_values import BUNDLE, missing_weights
from asdf.text import did_you_mean


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


def read_front_end_weights(weights: str, expected: Architecture) -> FrontEndWeights:
    """Read `front_end.weights`: a path, `torchaudio:NAME`, or a repository on the hub.

    The architecture is that of the file's options, if it has any. Shapes alone determine neither
    the number of attention heads nor the order of norms; without options, it is `expected`, or else
    the known architecture with these shapes.

    Raises:
        AsdfError: the weights cannot be read or downloaded, or are not those of a known kind of
            front end.
    """
    state, architecture, normalized = _read_source(weights)
    original_layers, others = _front_end_layers(state, weights)
    layers, not_used = rename_front_end(original_layers)
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
    masks = (original_layers[name] for name in MASK_EMBEDDING if name in original_layers)
    return FrontEndWeights(weights, architecture, layers, left_out, next(masks, None), normalized)


def _check_claims(architecture: Architecture, layers: Mapping[str, Tensor], source: str) -> None:
    """Compare a file's architecture with its layers before memory is allocated for the network."""
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
        *(source, waveforms, trained),
    )


def _read_source(weights: str) -> tuple[dict[str, Tensor], Architecture | None, bool | None]:
    """Return the layers of a file, folder or bundle, and what it states of the network.

    These are its architecture, and whether it was trained on normalised waveforms.
    """
    if weights.startswith(BUNDLE):
        bundle = weights.removeprefix(BUNDLE)
        # Checked before the download, so that an unknown name causes none.
        architecture = bundle_architecture(bundle)
        file = download_bundle(bundle)
        state = state_dict_in(read_weights_file(file), file)
        return state, architecture, bool(_find_bundle(bundle)._normalize_waveform)
    path = Path(fetch_weights(weights))
    if not path.exists():
        raise AsdfError(missing_weights(path))
    antideepfake = read_antideepfake(path)
    if antideepfake is not None:
        return antideepfake, None, True
    folder = hugging_face.folder_of(path)
    if folder:
        # The configuration first: an unsupported architecture fails before gigabytes are read.
        architecture = hugging_face.read_architecture(folder)
        return hugging_face.read_state(path), architecture, hugging_face.normalizes(folder)
    if path.is_dir() or path.suffix == ".safetensors" or path.name.endswith(".index.json"):
        where = "in it" if path.is_dir() else "next to it"
        raise AsdfError(
            f"cannot read weights from {path}: there is no {CONFIG} {where}, which states the "
            "architecture. Name a Hugging Face folder with its configuration, or a checkpoint file."
        )
    content = read_weights_file(path)
    try:
        stated = fairseq.architecture_from_options(content)
    # The reader of options does not know the file's name.
    except AsdfError as error:
        raise AsdfError(f"weights file {path} cannot be used: {error}") from error
    state = state_dict_in(content, path)
    normalized = True if is_antideepfake(state) else fairseq.normalizes(content)
    return state, stated, normalized


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
    (prefix,) = prefixes
    named = [name for name in state if name.startswith(prefix)]
    layers = {name.removeprefix(prefix): state[name] for name in named}
    return layers, [name for name in state if not name.startswith(prefix)]


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


BASE_URL = "https://download.pytorch.org/torchaudio/models/"
# Of an idle connection; a whole download takes longer.
TIMEOUT_S = 60
_PART = ".part"


def download_bundle(name: str) -> Path:
    """Return the path of the bundle `torchaudio.pipelines.NAME` in torch's cache.

    It is downloaded if it is missing there, or damaged.

    Raises:
        UsageError: there is no such bundle.
        AsdfError: it cannot be downloaded.
    """
    file = _find_bundle(name)._path
    url = BASE_URL + file
    path = Path(torch.hub.get_dir(), "checkpoints", Path(file).name)
    damage = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(path) as is_alone:
            # Of killed processes, each as large as the bundle.
            for left in path.parent.glob(f".{escape(path.name)}.*{_PART}") if is_alone else ():
                shutil.rmtree(left, ignore_errors=True)
            if path.is_file():
                damage = _find_fault(name, path)
                if not damage:
                    return path
                LOG.warning(
                    "%s, the download of torchaudio:%s, is damaged and is downloaded again: %s",
                    *(path, name, damage),
                )
            LOG.info("downloading torchaudio:%s from %s to %s", name, url, path)
            # In the same folder, because a rename is atomic only within a file system.
            with TemporaryDirectory(_PART, f".{path.name}.", path.parent) as folder:
                part = Path(folder, path.name)
                # By default, torch.hub waits for ever for a connection that sends nothing.
                before = socket.getdefaulttimeout()
                socket.setdefaulttimeout(TIMEOUT_S)
                try:
                    torch.hub.download_url_to_file(url, str(part), progress=sys.stderr.isatty())
                finally:
                    socket.setdefaulttimeout(before)
                fault = _find_fault(name, part)
                if fault:
                    raise OSError(f"the server sent something other than this network: {fault}")
                part.replace(path)
    except (OSError, HTTPException) as error:
        damaged = " The file at that path is a damaged download." if damage else ""
        raise AsdfError(
            f"cannot download front_end.weights = 'torchaudio:{name}' from {url} to {path}: "
            f"{error}.{damaged} Compute nodes often have no internet access: run the following "
            "where there is, such as a login node, with the same home folder or TORCH_HOME: python "
            f"-c \"from asdf.interchange import download_bundle; download_bundle('{name}')\""
        ) from error
    return path


def bundle_architecture(name: str) -> Architecture:
    """Return the architecture of the bundle `torchaudio.pipelines.NAME`.

    Raises:
        UsageError: there is no such bundle.
    """
    bundle = _find_bundle(name)
    # torchaudio states these only in private attributes.
    sizes = bundle._params
    relative_positions = None
    if bundle._model_type == "WavLM":
        relative_positions = (sizes["encoder_num_buckets"], sizes["encoder_max_distance"])
    return Architecture(
        conv_layers=tuple(tuple(layer) for layer in sizes["extractor_conv_layer_config"]),
        extractor_mode=sizes["extractor_mode"],
        conv_bias=sizes["extractor_conv_bias"],
        dimension=sizes["encoder_embed_dim"],
        layers=sizes["encoder_num_layers"],
        heads=sizes["encoder_num_heads"],
        feed_forward=sizes["encoder_ff_interm_features"],
        layer_norm_first=sizes["encoder_layer_norm_first"],
        pos_conv_kernel=sizes["encoder_pos_conv_kernel"],
        pos_conv_groups=sizes["encoder_pos_conv_groups"],
        relative_positions=relative_positions,
    )


def _find_bundle(name: str) -> Wav2Vec2Bundle:
    named = vars(torchaudio.pipelines).items()
    bundles = {key: value for key, value in named if isinstance(value, Wav2Vec2Bundle)}
    if name not in bundles:
        hint = did_you_mean(name, bundles, prefix="torchaudio:")
        raise UsageError(
            f"front_end.weights: 'torchaudio:{name}' is not known.{hint} Known are "
            f"{', '.join(sorted(bundles))}."
        )
    return bundles[name]


def _find_fault(name: str, path: Path) -> str:
    """Return why a file is not the network of a bundle; '' if it is."""
    try:
        layers, _ = fairseq.torchaudio_names(state_dict_in(read_weights_file(path), path))
    except AsdfError as error:
        return str(error).rstrip(".")
    # The names of layers do not suffice: another bundle's layers have the same names.
    shapes = bundle_architecture(name).shapes()
    # Additional layers, such as those of a fine-tuned head, do no harm.
    differences = compare_layers(shapes, layers, ignored=layers)
    return f"its layers are not the bundle's: {differences}" if differences else ""
