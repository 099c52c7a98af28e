"""Networks in the layouts of their authors' programs, as `export` writes them.

The state dict of a network in the layout of its authors' publication.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import write_safetensors
from asdf.checkpoint.weights_file import write_weights_file
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.antideepfake import KIND, antideepfake_state, has_one_class
from asdf.extras.zoo.layouts.hub.classifier_writing import write_classifier
from asdf.extras.zoo.layouts.name_maps.known import DF_ARENA, name_maps_by_kind
from asdf.extras.zoo.layouts.name_maps.writing import named_state
from asdf.extras.zoo.layouts.published import PUBLISHED, published_state
from asdf.extras.zoo.networks.classes import ClassSizes
from asdf.networks.aasist import AASIST
from asdf.networks.attached import describe_heads, loss_of
from asdf.networks.rawnet2 import RawNet2
from asdf.networks.ssl_detector import SSLDetector

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
    # A user's class may have such a name.
    if kind in PUBLISHED and isinstance(network, SSLDetector):
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
    if layout == "transformers_classifier":
        return _write_classifier(out, network, file)
    kind = type(network).__name__
    kinds = _KINDS.get(layout, (kind,))
    # A class derived from one of them has its layers.
    if not any(base.__name__ in kinds for base in type(network).__mro__):
        raise AsdfError(f"{kind} has no layout {layout}. Networks with it: {', '.join(kinds)}.")
    state, filled = authors_state(network)
    name_map = name_maps_by_kind().get(kind)
    # A safetensors file cannot store a key.
    key = name_map.nested_in if name_map else ""
    if out.suffix == ".safetensors":
        write_safetensors(out, state, {"format": "pt"})
    else:
        write_weights_file(out, {key: state} if key else state)
    if layout == "df_arena":
        return (
            "the file does not include DF-Arena's config.json and code: put it in a copy of their "
            "repository"
        )
    if filled:
        return (
            f"filled with zeros, for programs that load strictly: {len(filled)} layers used only "
            "in pretraining the front end"
        )
    # Scores do not depend on them, but a program that loads strictly requires them.
    lacks_layers = name_map is not None and name_map.front_end and name_map.computed is None
    if lacks_layers or layout in ("ssl_anti_spoofing", "antideepfake"):
        return "layers used only in pretraining the front end are missing: load with strict=False"
    return ""


def _write_classifier(out: Path, network: nn.Module, file: NetworkFile) -> str:
    settings = file.to_sections()
    write_classifier(out, network, settings)
    sizes = ClassSizes.of(settings)
    numbers = sizes.classifier_bona_fide
    named = ", ".join(sizes.classifier_classes[number] for number in numbers)
    return f"its classes keep their order and names; bona fide: {named}"


# Networks of the layouts of single programs.
_KINDS: dict[str, tuple[str, ...]] = {
    "ssl_anti_spoofing": PUBLISHED,
    "aasist": ("AASIST", "AASIST_L"),
    "rawnet2": ("RawNet2",),
    "antideepfake": (KIND,),
    "df_arena": (DF_ARENA.kind,),
}
