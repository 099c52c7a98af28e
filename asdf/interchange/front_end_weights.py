"""The pretrained weights of a front end: fairseq's, Hugging Face's, torchaudio's, or those inside a detector.

Invariant: every layer of the file is a layer of the front end, or known to be of no use for features, and then
logged; what is neither keeps its name, so that the check of layers (`fitting.py`) finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from asdf.errors import AsdfError
from asdf.interchange import fairseq, fairseq_names, hugging_face, hugging_face_names
from asdf.interchange.download import bundle_architecture, bundle_normalizes, download_bundle
from asdf.interchange.fitting import by_module, check_layers, first_names
from asdf.interchange.state_dicts import READABLE, state_dict_in
from asdf.interchange.weights_file import read_weights_file
from asdf.networks.architectures import KNOWN, Architecture
from asdf.settings.weights_names import BUNDLE, missing_weights

MASK_EMBEDDING = ("mask_emb", "masked_spec_embed")  # as fairseq and transformers call it
_FIRST_LAYER = "feature_extractor.conv_layers.0."

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FrontEndWeights:
    """A front end's weights: layers by torchaudio's names, and the architecture that they fit.

    mask_embedding: (dimension,), what pretraining put in the place of masked frames, where the file has it.
    normalized: whether it was trained on waveforms of zero mean and unit variance; None where nothing tells.
    """

    source: str
    architecture: Architecture
    layers: dict[str, Tensor]
    left_out: tuple[str, ...]
    mask_embedding: Tensor | None = None
    normalized: bool | None = None


def read_front_end_weights(weights: str, expected: Architecture) -> FrontEndWeights:
    """Read what `front_end.weights` names: a checkpoint file, a folder of Hugging Face, or `torchaudio:NAME`.

    The architecture is the file's where its options tell it. Shapes alone tell neither the number of attention heads
    nor the order of norms: then it is `expected` or else the known one whose layers have these shapes.

    Raises:
        AsdfError: the weights cannot be read or fetched, or are not those of a front end of a known kind.
    """
    state, told, normalized = _read(weights)
    inside, others = _front_end_layers(state, weights)
    layers, not_used = rename_front_end(inside)
    if told:
        _check_claims(told, layers, weights)
    architecture = told or matching_architecture(layers, expected)
    left_out = (*not_used, *others)
    _log.info("front end: %d layers from %s, %s", len(layers), weights, architecture.to_text())
    if architecture != expected:
        _log.info("front end: the architecture is the file's; front_end.architecture is not used")
    if left_out:
        _log.info("front end: left out of %s: %s", weights, by_module(left_out))
    mask_embedding = next((inside[name] for name in MASK_EMBEDDING if name in inside), None)
    return FrontEndWeights(weights, architecture, layers, left_out, mask_embedding, normalized)


def _check_claims(architecture: Architecture, layers: Mapping[str, Tensor], source: str) -> None:
    """Hold what a file tells of its architecture against its layers, before memory is taken for the network.

    Raises:
        AsdfError: the architecture has other layers.
    """
    if max(architecture.layers, len(architecture.conv_layers)) > len(layers):
        raise AsdfError(
            f"weights {source} are described with {architecture.layers:,} encoder layers and "
            f"{len(architecture.conv_layers):,} convolutions, and hold {len(layers):,} tensors. They are damaged."
        )
    try:
        shapes = architecture.shapes()
    except RuntimeError as error:
        raise AsdfError(
            f"weights {source} are described with sizes that no network has, {architecture.to_text()}."
        ) from error
    check_layers(shapes, layers, "the architecture that they name", source)


def rename_front_end(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """A front end's layers under torchaudio's names, from fairseq's, Hugging Face's or torchaudio's own.

    Returns:
        The layers, and the names of those that features do not depend on.
    """
    return (
        hugging_face_names if hugging_face_names.is_hugging_face(state) else fairseq_names
    ).torchaudio_names(state)


def tell_normalization(weights: FrontEndWeights, normalizes: bool) -> None:
    """Log it where waveforms reach pretrained weights otherwise than they did in pretraining."""
    if weights.normalized is not None and weights.normalized != normalizes:
        _log.info(
            "front end: %s was trained on waveforms %s; front_end.normalize_waveforms = %s is as it was trained",
            weights.source,
            "of zero mean and unit variance" if weights.normalized else "as they are",
            weights.normalized,
        )


def _read(weights: str) -> tuple[dict[str, Tensor], Architecture | None, bool | None]:
    """All named tensors, the architecture if it is told, and whether the network wants normalised waveforms."""
    if weights.startswith(BUNDLE):
        name = weights.removeprefix(BUNDLE)
        told, path = bundle_architecture(name), download_bundle(name)
        return state_dict_in(read_weights_file(path), path), told, bundle_normalizes(name)
    path = Path(weights)
    if not path.exists():
        raise AsdfError(missing_weights(path))
    folder = hugging_face.folder_of(path)
    if folder:
        # The configuration first: a network that cannot be is told before gigabytes are read.
        told = hugging_face.read_architecture(folder)
        return hugging_face.read_state(path), told, hugging_face.normalizes(folder)
    if path.is_dir() or path.suffix == ".safetensors" or path.name.endswith(".index.json"):
        raise AsdfError(
            f"cannot read weights from {path}: there is no {hugging_face.CONFIG} "
            f"{'in it' if path.is_dir() else 'beside it'}, which tells the architecture. Name a folder of Hugging Face "
            "with its configuration, or a checkpoint file."
        )
    content = read_weights_file(path)
    try:
        told_by_options = fairseq.architecture_from_options(content)
    except AsdfError as error:
        raise AsdfError(f"weights file {path} cannot be used: {error}") from error
    return state_dict_in(content, path), told_by_options, fairseq.normalizes(content)


def _front_end_layers(
    state: dict[str, Tensor], path: str | Path
) -> tuple[dict[str, Tensor], list[str]]:
    """The front end's layers, without what programs put before their names, and the names of all other layers."""
    prefixes = {name[: name.index(_FIRST_LAYER)] for name in state if _FIRST_LAYER in name}
    if len(prefixes) != 1:
        found = (
            f"{len(prefixes)} of them: {', '.join(sorted(prefixes))}"
            if prefixes
            else f"layers {first_names(list(state))}"
        )
        raise AsdfError(
            f"weights file {path} should hold one wav2vec 2.0 front end; it holds {found}. {READABLE}."
        )
    prefix = prefixes.pop()
    inside = {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }
    return inside, [name for name in state if not name.startswith(prefix)]


def matching_architecture(layers: Mapping[str, Tensor], expected: Architecture) -> Architecture:
    """`expected` if it has layers of these shapes, else the known architecture that has, else `expected`."""
    shapes = {name: tensor.shape for name, tensor in layers.items()}
    return next(
        (known for known in (expected, *KNOWN.values()) if known.shapes() == shapes), expected
    )
