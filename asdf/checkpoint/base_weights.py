"""The base of a network file that holds only trained weights: the pretrained rest.

Invariant: such a file and its base give exactly one network, or an error. The file states a digest
of the weights that it leaves out, and a network with other weights is never filled from it.

A run leaves out parameters of front ends that it never trains, in the state after loading
pretrained weights; buffers, and everything else, are in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.hub import hub_name
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.interface import NetworkSections
from asdf.networks.split import tensors_digest
from asdf.runs.log import LOG
from asdf.settings.front_end_values import BUNDLE

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


def saves_only_trained(settings: NetworkSections) -> bool:
    """Return whether files of the network leave out weights from `front_end.weights`."""
    if settings.front_end.weights is None:
        return False
    if settings.network.save_only_trained == "auto":
        return settings.lora.rank > 0
    return settings.network.save_only_trained


def note_base(network: nn.Module, settings: NetworkSections) -> None:
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
