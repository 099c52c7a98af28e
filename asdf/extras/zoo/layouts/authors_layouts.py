"""The state dict of a network in the layout of its authors' publication."""

from __future__ import annotations

from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.antideepfake import KIND, antideepfake_state
from asdf.extras.zoo.layouts.name_maps.known import name_maps_by_kind
from asdf.extras.zoo.layouts.name_maps.writing import named_state
from asdf.extras.zoo.layouts.published import PUBLISHED, published_state
from asdf.networks.aasist import AASIST
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
