"""Networks in the layouts of their authors' programs, as `export` writes them.

The state dict of a network in the layout of its authors' publication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import write_safetensors
from asdf.checkpoint.weights_file import write_weights_file
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.antideepfake import KIND, antideepfake_state, has_one_class
from asdf.extras.zoo.layouts.hub.classifier_writing import write_classifier
from asdf.extras.zoo.layouts.name_maps.known import DF_ARENA, name_maps_by_kind
from asdf.extras.zoo.layouts.name_maps.writing import named_state
from asdf.extras.zoo.layouts.published import PUBLISHED, published_state, raw_state
from asdf.extras.zoo.settings import sizes_of
from asdf.networks.aasist import AASIST
from asdf.networks.attached import describe_heads, loss_of
from asdf.networks.rawnet2 import RawNet2

# Networks whose layers have the published names.
_NAMED_AS_PUBLISHED = (AASIST, RawNet2)


def authors_state(network: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Return the state dict for the authors' program, and names of zero layers in it.

    Raises:
        AsdfError: the network was not published, or has parts that the authors' does not have.
    """
    if isinstance(network, _NAMED_AS_PUBLISHED):
        return network.state_dict(), []
    kind = type(network).__name__
    if kind == KIND:
        return antideepfake_state(network)
    if kind in PUBLISHED:
        return published_state(network)
    named = named_state(network)
    if named is not None:
        return named, []
    classes = [each.__name__ for each in _NAMED_AS_PUBLISHED]
    known = ", ".join([*classes, *PUBLISHED, KIND, *name_maps_by_kind()])
    raise AsdfError(
        f"{kind} has no published layout. Networks with one: {known}. The formats safetensors and "
        "hub support any network."
    )


def key_of_layers(network: nn.Module) -> str:
    """Return the key of the layers in the authors' files; '' if they are at the top level."""
    name_map = name_maps_by_kind().get(type(network).__name__)
    return name_map.nested_in if name_map else ""


def lacks_pretraining(network: nn.Module) -> bool:
    """Whether the authors' programs have layers of pretraining that our front end lacks.

    Scores do not depend on them, but a program that loads strictly requires them.
    """
    name_map = name_maps_by_kind().get(type(network).__name__)
    return name_map is not None and bool(name_map.front_end) and name_map.computed is None


def write_published(layout: str, out: Path, network: nn.Module, file: NetworkFile) -> str:
    """Write a network in the layout of a published program; return notes for the user, or ''.

    Raises:
        UsageError: the layout has no place for a part of the network.
        AsdfError: the network is of another kind, or the file cannot be written.
    """
    loss = loss_of(network)
    has_layer = layout in ("antideepfake", "published") and has_one_class(network)
    if loss is not None and not has_layer:
        raise UsageError(
            f"the network was trained with {type(loss).__name__}, whose layers compute its scores, "
            f"and the format {layout} cannot store them. Export it as onnx, torchscript, "
            "safetensors or hub."
        )
    for head in describe_heads(network):
        raise UsageError(
            f"the network has {head}, which the format {layout} cannot store. Export it as "
            "safetensors or hub, or as onnx or torchscript for utterance scores only."
        )
    return _WRITERS[layout](out, network, file)


def _write_ssl_anti_spoofing(out: Path, network: nn.Module, file: NetworkFile) -> str:
    state, filled = published_state(network)
    write_weights_file(out, state)
    return _describe_filled(filled)


def _write_raw(kind: type[nn.Module], out: Path, network: nn.Module, file: NetworkFile) -> str:
    write_weights_file(out, raw_state(network, kind))
    return ""


def _write_antideepfake(out: Path, network: nn.Module, file: NetworkFile) -> str:
    state, filled = antideepfake_state(network)
    _write_layers(out, state)
    return _describe_filled(filled)


def _write_df_arena(out: Path, network: nn.Module, file: NetworkFile) -> str:
    if type(network).__name__ != DF_ARENA.kind:
        raise AsdfError(
            f"{type(network).__name__} cannot be written in DF-Arena's layout: a front end of the "
            f"wav2vec 2.0 family, gates and a Conformer: {DF_ARENA.kind}."
        )
    _write_layers(out, authors_state(network)[0])
    return (
        "the file does not include DF-Arena's config.json and code: put it in a copy of their "
        "repository"
    )


def _write_classifier(out: Path, network: nn.Module, file: NetworkFile) -> str:
    settings = file.to_sections()
    write_classifier(out, network, settings)
    sizes = sizes_of(settings.back_end)
    numbers = sizes.classifier_bona_fide
    named = ", ".join(sizes.classifier_classes[number] for number in numbers)
    return f"its classes keep their order and names; bona fide: {named}"


def _write_as_published(out: Path, network: nn.Module, file: NetworkFile) -> str:
    state, filled = authors_state(network)
    key = key_of_layers(network)
    # A safetensors file cannot store a key.
    if key and out.suffix != ".safetensors":
        write_weights_file(out, {key: state})
    else:
        _write_layers(out, state)
    return _describe_filled(filled) if filled or lacks_pretraining(network) else ""


def _write_layers(out: Path, state: Mapping[str, Any]) -> None:
    if out.suffix == ".safetensors":
        write_safetensors(out, state, {"format": "pt"})
    else:
        write_weights_file(out, state)


def _describe_filled(filled: list[str]) -> str:
    if not filled:
        return "layers used only in pretraining the front end are missing: load with strict=False"
    return (
        f"filled with zeros, for programs that load strictly: {len(filled)} layers used only in "
        "pretraining the front end"
    )


_WRITERS: dict[str, Callable[[Path, nn.Module, NetworkFile], str]] = {
    "ssl_anti_spoofing": _write_ssl_anti_spoofing,
    "aasist": partial(_write_raw, AASIST),
    "rawnet2": partial(_write_raw, RawNet2),
    "antideepfake": _write_antideepfake,
    "df_arena": _write_df_arena,
    "transformers_classifier": _write_classifier,
    "published": _write_as_published,
}
