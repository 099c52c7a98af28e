"""The base of a network file that holds only trained weights: the pretrained rest.

Invariant: such a file and its base give exactly one network, or an error. The file states a digest
of the weights that it leaves out, and a network with other weights is never filled from it.

A run leaves out parameters of front ends that it never trains, in the state after loading
pretrained weights; buffers, and everything else, are in the file.

Comparison of weights with a network, layer by layer, and names of layers for messages.

Invariant: after loading, every layer holds the file's values. Layers that are missing, unknown or
of another shape give an error that names them; none stays random or is ignored silently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from asdf.checkpoint.weights_file import READABLE
from asdf.errors import AsdfError
from asdf.hub import hub_name
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.split import tensors_digest
from asdf.runs.log import LOG
from asdf.settings.front_end_values import BUNDLE
from asdf.settings.sections import Sections
from asdf.text import and_more, shorten

_MODEL = "model."


@dataclass(frozen=True)
class Base:
    """Pretrained weights, by their name in `front_end.weights`.

    Attributes:
        digest: Digest of the weights that a file leaves out, with their names.
        names: Names of these layers, in a network's state dict.
    """

    weights: str
    digest: str
    names: frozenset[str]

    def entry(self) -> dict[str, Any]:
        """Return the entry for a network file."""
        return {"weights": self.weights, "digest": self.digest, "layers": len(self.names)}


# Digests of gigabytes are computed once per network.
_BASES: WeakKeyDictionary[nn.Module, Base] = WeakKeyDictionary()


def saves_only_trained(settings: Sections) -> bool:
    """Return whether files of the network leave out weights from `front_end.weights`."""
    if settings.front_end.weights is None:
        return False
    if settings.network.save_only_trained == "auto":
        return settings.lora.rank > 0
    return settings.network.save_only_trained


def note_base(network: nn.Module, settings: Sections) -> None:
    """Store the base of a network whose pretrained weights have just been loaded."""
    if not saves_only_trained(settings):
        return
    names = resting_layers(network, settings.front_end.frozen)
    if names:
        assert settings.front_end.weights is not None
        digest = tensors_digest(_chosen(network.state_dict(), names))
        _BASES[network] = Base(settings.front_end.weights, digest, frozenset(names))


def base_of(network: nn.Module) -> Base | None:
    """Return the base that `note_base` stored for the network."""
    return _BASES.get(network)


def resting_layers(network: nn.Module, frozen: bool) -> list[str]:
    """Return the state dict names of front end parameters that are never trained.

    Args:
        frozen: Whether whole front ends are frozen.
    """
    names = []
    for prefix, module in network.named_modules():
        if not isinstance(module, FrontEnd):
            continue
        start = f"{prefix}.{_MODEL}" if prefix else _MODEL
        resting = {id(parameter) for parameter in module.untrained_parameters()}
        for name, parameter in module.model.named_parameters(remove_duplicate=False):
            if frozen or id(parameter) in resting:
                names.append(start + name)
    return names


def check_base(
    network: nn.Module, state: Mapping[str, Tensor], entry: Any, path: Path | None
) -> None:
    """Check that the layers that a file leaves out have the weights of its training.

    Args:
        state: Layers that the file has.
        entry: Entry of the file about its base.

    Raises:
        AsdfError: the weights differ.
    """
    check_entry(entry, path)
    base = base_of(network)
    layers = network.state_dict()
    absent = [name for name in layers if name not in state]
    if base is not None and base.names == set(absent):
        digest = base.digest
    else:
        digest = tensors_digest(_chosen(layers, absent))
    if digest != entry["digest"]:
        raise AsdfError(
            f"{path} contains only the trained parts, on top of {entry['weights']}, but the "
            f"network's {len(absent)} other layers differ: these are other pretrained weights, or "
            "other parts were trained. Name the exact file that it was trained from."
        )


def compare_with_base(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Forget the base of a network that a complete file has filled with other weights."""
    base = base_of(network)
    if base is None:
        return
    names = [name for name in state if name in base.names]
    if names and tensors_digest(_chosen(state, names)) != base.digest:
        LOG.warning("the front end differs from %s: networks are saved whole", base.weights)
        del _BASES[network]


def find_base(entry: Any, path: Path | None, base: str | None) -> str:
    """Return the location of a file's pretrained weights: `base`, or the one in the file.

    Raises:
        AsdfError: the entry is damaged, or the file or folder does not exist.
    """
    check_entry(entry, path)
    noted = str(entry["weights"])
    weights = noted if base is None else base
    name = hub_name(weights)
    # For the same repository without a commit, use the file's commit.
    if name is not None and name.revision is None and noted.startswith(f"{name}@"):
        weights = noted
        name = hub_name(noted)
    # A bare name in a file is a path; only the user may omit 'hub:'.
    is_on_hub = name is not None and (name.is_explicit or base is not None)
    if is_on_hub or weights.startswith(BUNDLE) or Path(weights).exists():
        return weights
    raise AsdfError(
        f"{path} contains only the trained parts. Its pretrained weights, {weights}, were not "
        "found. Name them: base='PATH' for asdf.Detector, --base PATH for score and export, "
        "front_end.weights in a recipe. `python -m asdf export` joins both in one file."
    )


def check_entry(entry: Any, path: Path | None) -> None:
    """Check that a file's entry about its base is valid.

    Raises:
        AsdfError: the entry is damaged.
    """
    if isinstance(entry, Mapping):
        values = (entry.get("weights"), entry.get("digest"))
        if all(isinstance(value, str) for value in values):
            return
    raise AsdfError(f"{path} is damaged: its entry about the base cannot be read.")


def _chosen(state: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    return {name: state[name] for name in sorted(names)}


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


def compare_layers(
    shapes: Mapping[str, torch.Size],
    state: Mapping[str, Any],
    ignored: Collection[str] = (),
    own_names: Mapping[str, str] | None = None,
) -> str:
    """Compare the layers of a file with the `shapes` of a network's layers.

    Args:
        state: Layers of the file; one that is not a tensor counts as having another shape.
        ignored: Names that the file may have and the network need not have.
        own_names: Names in the file itself for its layers, by the network's names.

    Returns:
        Number and first names of the layers that differ, by kind; '' if the file fits.
    """
    own = own_names or {}
    misshapen = []
    for name, shape in shapes.items():
        value = state.get(name)
        if name not in state or (isinstance(value, Tensor) and value.shape == shape):
            continue
        held = _describe(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
        needed = _describe(shape)
        misshapen.append(f"{own.get(name, name)} ({held} in the file, {needed} in the network)")
    missing = [own.get(name, name) for name in shapes if name not in state]
    extra = [name for name in state if name not in shapes and name not in ignored]
    faults = {
        "missing from the file": missing,
        "of another shape": misshapen,
        "unknown to the network": [own.get(name, name) for name in extra],
    }
    return "; ".join(
        f"{len(names)} {fault}: {first_names(names)}" for fault, names in faults.items() if names
    )


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
    differences = compare_layers(shapes, state, ignored, own_names)
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
