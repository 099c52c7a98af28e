"""Comparison of weights with a network, layer by layer, and names of layers for messages.

Invariant: after loading, every layer holds the file's values. Layers that are missing, unknown or
of another shape give an error that names them; none stays random or is ignored silently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import torch
from torch import Tensor, nn

from asdf.checkpoint.base_weights import compare_with_base
from asdf.checkpoint.weights_file import READABLE
from asdf.errors import AsdfError
from asdf.text import and_more, shorten

PUBLISHED_FRONT_END = "ssl_model.model."
"""Prefix of a front end's layers in SSL_Anti-spoofing's files."""

ANTIDEEPFAKE_FRONT_END = "m_ssl.model."
"""Prefix of a front end's layers in AntiDeepfake's files."""

SPECTRA_FRONT_END = "ssl_encoder.model."
"""Prefix in lab260's Spectra files, followed by the names of transformers."""

PUBLISHED_FRONT_ENDS = (PUBLISHED_FRONT_END, ANTIDEEPFAKE_FRONT_END, SPECTRA_FRONT_END)

OTHER_ARCHITECTURE = (
    f"They are of another architecture (front_end.architecture), or of another kind. {READABLE}."
)
_NAMES_SHOWN = 6
_LAYERS_SHOWN = 4


@dataclass(frozen=True)
class LayerDifferences:
    """Names of the layers in which a file differs from a network."""

    missing: list[str]
    misshapen: list[str]
    unknown: list[str]

    def describe(self) -> str:
        """Return the number and first names of each kind; '' if the file fits."""
        faults = {
            "missing from the file": self.missing,
            "of another shape": self.misshapen,
            "unknown to the network": self.unknown,
        }
        texts = []
        for fault, names in faults.items():
            if names:
                texts.append(f"{len(names)} {fault}: {first_names(names)}")
        return "; ".join(texts)


def compare_layers(
    shapes: Mapping[str, torch.Size],
    state: Mapping[str, Any],
    ignored: Collection[str] = (),
    own_names: Mapping[str, str] | None = None,
) -> LayerDifferences:
    """Compare the layers of a file with the `shapes` of a network's layers.

    Args:
        state: Layers of the file; one that is not a tensor counts as having another shape.
        ignored: Names that the file may have and the network need not have.
        own_names: Names in the file itself for its layers, by the network's names.
    """
    own = own_names or {}
    misshapen = []
    for name, shape in shapes.items():
        value = state.get(name)
        if name not in state or (isinstance(value, Tensor) and value.shape == shape):
            continue
        held = f"a {type(value).__name__}"
        if isinstance(value, Tensor):
            held = _describe(value.shape)
        in_file = own.get(name, name)
        misshapen.append(f"{in_file} ({held} in the file, {_describe(shape)} in the network)")
    missing = [own.get(name, name) for name in shapes if name not in state]
    extra = [name for name in state if name not in shapes and name not in ignored]
    unknown = [own.get(name, name) for name in extra]
    return LayerDifferences(missing, misshapen, unknown)


def check_layers(
    shapes: Mapping[str, torch.Size],
    state: Mapping[str, Any],
    network: str,
    source: str,
    advice: str = OTHER_ARCHITECTURE,
    ignored: Collection[str] = (),
    own_names: Mapping[str, str] | None = None,
) -> None:
    """Check that a file has exactly the layers of a network, in their shapes.

    Args:
        network, source: Names of the network and of the file for the message.
        advice: Advice about layers that differ.
        ignored: Names that the file may have and the network need not have.
        own_names: Names in the file itself, as in `compare_layers`.

    Raises:
        AsdfError: layers are missing, unknown or of another shape; the message names them.
    """
    differences = compare_layers(shapes, state, ignored, own_names).describe()
    if differences:
        raise AsdfError(
            f"weights {source} do not fit {network}; nothing was loaded. Layers {differences}. "
            f"{advice}"
        )


def load_layers(
    module: nn.Module,
    state: Mapping[str, Tensor],
    source: str,
    advice: str = OTHER_ARCHITECTURE,
    ignored: Collection[str] = (),
    absent: Collection[str] = (),
) -> None:
    """Load every layer of `module`, or none; `source`, `advice` and `ignored` as of `check_layers`.

    Args:
        absent: Names of layers that the file lacks and that stay unchanged.

    Raises:
        AsdfError: layers are missing, unknown or of another shape; the message names them.
    """
    layers = {name: layer for name, layer in module.state_dict().items() if name not in absent}
    shapes = {name: tensor.shape for name, tensor in layers.items()}
    # Before load_state_dict, which has copied the fitting layers by the time it raises.
    check_layers(shapes, state, type(module).__name__, source, advice, ignored)
    # Only the network's names, since load_state_dict would refuse the `ignored` ones.
    module.load_state_dict({name: state[name] for name in layers}, strict=not absent)
    compare_with_base(module, state)


def describe_layers(layers: Mapping[str, Tensor]) -> str:
    """Describe the names and shapes of the first layers, and the number of others."""
    shown = [
        f"{shorten(name)} ({_describe(tensor.shape)})"
        for name, tensor in islice(layers.items(), _LAYERS_SHOWN)
    ]
    names = [*shown, *list(layers)[_LAYERS_SHOWN:]]
    return f"it holds {and_more(names, _LAYERS_SHOWN)}"


def by_module(names: Iterable[str]) -> str:
    """Return the modules of these layers, each by the innermost part with all of its layers."""
    modules: dict[str, list[list[str]]] = {}
    for name in names:
        for prefix in PUBLISHED_FRONT_ENDS:
            name = name.removeprefix(prefix)
        parts = name.split(".")
        modules.setdefault(parts[0], []).append(parts)
    described = []
    for first, layers in modules.items():
        if len(layers) == 1:
            described.append(".".join(layers[0]))
            continue
        # Up to the depth of the shortest name, since a common part must be in all of them.
        levels = zip(*(parts[1:-1] for parts in layers), strict=False)
        shared = takewhile(lambda level: len(set(level)) == 1, levels)
        described.append(".".join([first, *(level[0] for level in shared), "*"]))
    return ", ".join(described)


def first_names(names: list[str]) -> str:
    """Return the first of these names, and the number of others."""
    return and_more(names, _NAMES_SHOWN)


def _describe(shape: torch.Size) -> str:
    return "x".join(map(str, shape)) or "a number"
