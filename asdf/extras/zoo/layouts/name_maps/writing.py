"""A network in the layout that a map of names describes."""

from __future__ import annotations

from dataclasses import asdict

from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.hub.classifier_folder import FRONT_END
from asdf.extras.zoo.layouts.name_maps.known import NameMap, name_maps_by_kind
from asdf.extras.zoo.layouts.name_maps.reading import MASK, MASK_EMBEDDING
from asdf.extras.zoo.layouts.published import Layout, check_nothing_added, front_end_of
from asdf.networks.front_ends.encoder_layers import split_attention_layers
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.spectral import SpectralFrontEnd, choose_sizes
from asdf.networks.ssl_detector import SSLDetector
from asdf.settings.sections import FRONT_ENDS, Sections, Spectrum, assign

_FRONT_END_CLASS = "front_end.front_end_class"


def named_state(network: nn.Module) -> dict[str, Tensor] | None:
    """Return the state dict of a network in its layout; None without a map of names.

    Raises:
        AsdfError: the network has parts, or settings, that its authors' program does not support.
    """
    name_map = name_maps_by_kind().get(type(network).__name__)
    if name_map is None:
        return None
    _check_front_end(name_map, network)
    named = {}
    encoder = {}
    for name, tensor in network.state_dict().items():
        if name_map.front_end and name.startswith(FRONT_END):
            encoder[name.removeprefix(FRONT_END)] = tensor
            continue
        if name_map.front_end and name == MASK:
            named[name_map.front_end + MASK_EMBEDDING] = tensor
            continue
        theirs = name_map.their_name(name)
        if theirs is None:
            raise AsdfError(f"the layout of {name_map.name} has no layer for {name}.")
        conversion = name_map.conversions.get(name)
        named[theirs] = conversion.to_theirs(tensor) if conversion else tensor
    if name_map.front_end:
        named |= _front_end_layers(name_map, network, encoder)
    computed = name_map.computed(network) if name_map.computed else {}
    # The network's own layers take precedence: one that masks frames has the mask vector.
    layers = {**computed, **named, **name_map.constants()}
    return {name_map.wrapped_in + name: tensor for name, tensor in layers.items()}


def _check_front_end(name_map: NameMap, network: nn.Module) -> None:
    """Refuse a network with other features than the program computes.

    Raises:
        AsdfError: its front end is of another kind, or of other sizes.
    """
    kind = name_map.settings.get(_FRONT_END_CLASS)
    kinds = (kind,) if kind else name_map.front_ends
    if not kinds:
        return
    front_end = getattr(network, "front_end", None)
    assert isinstance(network, SSLDetector) and isinstance(front_end, FrontEnd)
    check_nothing_added(network, name_map.name)
    published = Sections()
    assign(published, name_map.settings)
    is_kind = type(front_end).__name__ in [FRONT_ENDS[each].rpartition(".")[2] for each in kinds]
    if is_kind and _is_as(front_end, published.spectrum):
        return
    listed = " or ".join(repr(each) for each in kinds)
    raise AsdfError(
        f"{name_map.name}'s program computes features as with {_FRONT_END_CLASS} = {listed} and "
        "the settings of features as `import` sets them, but this network's differ. Choose another "
        "format of `python -m asdf export`."
    )


def _is_as(front_end: FrontEnd, published: Spectrum) -> bool:
    """Whether features are those of the `published` settings."""
    if front_end.normalize_waveforms or front_end.layers < front_end.encoder_layers:
        return False
    if not isinstance(front_end, SpectralFrontEnd):
        return not front_end.repeats_last_frame
    if front_end.sizes != choose_sizes(published, front_end.usual):
        return False
    sizes = asdict(front_end.sizes)
    theirs = asdict(published)
    for name, value in asdict(front_end.sections.spectrum).items():
        if name not in sizes and theirs[name] != value:
            return False
    return True


def _front_end_layers(
    name_map: NameMap, network: nn.Module, encoder: dict[str, Tensor]
) -> dict[str, Tensor]:
    assert isinstance(network, SSLDetector)
    front_end = front_end_of(network, Layout(name_map.name, name_map.front_end))
    architecture = front_end.architecture
    normalizes = name_map.scales(architecture)
    repeats = bool(name_map.settings.get("front_end.repeat_last_frame"))
    for setting, is_so, has_to in (
        ("front_end.repeat_last_frame", front_end.repeats_last_frame, repeats),
        ("front_end.normalize_waveforms", front_end.normalize_waveforms, normalizes),
    ):
        if is_so != has_to:
            raise AsdfError(
                f"programs for the layout of {name_map.name} compute as with {setting} = {has_to}, "
                f"but this network was built with {is_so}: its scores would differ. Choose another "
                "format of `python -m asdf export`."
            )
    return name_map.encoder_names(split_attention_layers(encoder), architecture)
