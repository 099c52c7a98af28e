"""The base of a network file that holds only what was trained: which weights the rest is.

Invariant: such a file and its base give one network, to the last bit, or an error. The file states
a digest of all numbers that it leaves out, and no network is filled from it whose numbers differ.

What a run leaves out are the parameters of front ends that learn in no epoch of it, in the state in
which pretrained weights put them; buffers, and all else, are in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from asdf.distributed.sharding import whole_tensor
from asdf.errors import AsdfError
from asdf.hub import hub_name
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.split import tensors_digest
from asdf.networks.tuning.tuned import adds_to_front_end
from asdf.networks.views import NetworkSections
from asdf.runs.log import LOG
from asdf.settings.weights_names import BUNDLE

_MODEL = "model."


@dataclass(frozen=True)
class Base:
    """Pretrained weights, by what `front_end.weights` calls them.

    Attributes:
        digest: Digest of the numbers that a file leaves out, with their names.
        names: Names of these layers, in a network's state dict.
    """

    weights: str
    digest: str
    names: frozenset[str]

    def entry(self) -> dict[str, Any]:
        """Return what stands in a network file."""
        return {"weights": self.weights, "digest": self.digest, "layers": len(self.names)}


# Digests of gigabytes are computed once per network.
_BASES: WeakKeyDictionary[nn.Module, Base] = WeakKeyDictionary()


def saves_only_trained(settings: NetworkSections) -> bool:
    """Return whether files of the network leave out what `front_end.weights` gives again."""
    if settings.front_end.weights is None:
        return False
    if settings.network.save_only_trained == "auto":
        return adds_to_front_end(settings)
    return settings.network.save_only_trained


def note_base(network: nn.Module, settings: NetworkSections) -> None:
    """Remember the base of a network that has just got its pretrained weights."""
    if not saves_only_trained(settings):
        return
    names = resting_layers(network, settings.front_end.frozen)
    if names:
        assert settings.front_end.weights is not None
        digest = tensors_digest(_chosen(network.state_dict(), names))
        _BASES[network] = Base(settings.front_end.weights, digest, frozenset(names))


def base_of(network: nn.Module) -> Base | None:
    """Return what `note_base` remembered of the network."""
    return _BASES.get(network)


def resting_layers(network: nn.Module, frozen: bool) -> list[str]:
    """Return the names, in the state dict, of front ends' parameters that learn in no epoch.

    Args:
        frozen: whether all of a front end rests.
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
    network: nn.Module,
    state: Mapping[str, Tensor],
    entry: Any,
    path: Path | None,
) -> None:
    """Make sure that the layers that a file leaves out have the numbers that it was trained with.

    All processes of a network that is divided call this together.

    Args:
        state: the layers that the file has.
        entry: Entry of the file about its base.

    Raises:
        AsdfError: they have others.
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
            f"{path} holds only what was trained, on top of {entry['weights']}, and the network's "
            f"{len(absent)} other layers have other numbers: the pretrained weights are not those, "
            "or other parts were trained. Name the very file that it was trained from."
        )


def compare_with_base(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Forget the base of a network that a whole file has filled with other numbers."""
    base = base_of(network)
    if base is None:
        return
    names = [name for name in state if name in base.names]
    if names and tensors_digest(_chosen(state, names)) != base.digest:
        LOG.warning(
            "the front end has other numbers than %s: networks are saved whole", base.weights
        )
        del _BASES[network]


def find_base(entry: Any, path: Path | None, base: str | None) -> str:
    """Return where the pretrained weights of a file are: `base`, or what the file says.

    Raises:
        AsdfError: the entry is damaged, or no file or folder is there.
    """
    check_entry(entry, path)
    noted = str(entry["weights"])
    weights = noted if base is None else base
    name = hub_name(weights)
    # The same repository without a commit: that of the file.
    if name is not None and name.revision is None and noted.startswith(f"{name}@"):
        weights = noted
        name = hub_name(noted)
    # A file's bare name stays a path: only the user may leave 'hub:' out.
    is_on_hub = name is not None and (name.is_explicit or base is not None)
    if is_on_hub or weights.startswith(BUNDLE) or Path(weights).exists():
        return weights
    raise AsdfError(
        f"{path} holds only what was trained. The pretrained weights that it belongs to, "
        f"{weights}, are not there. Name them: base='PATH' for asdf.Detector, --base PATH for "
        "score and export, front_end.weights in a recipe. `python -m asdf export` makes a whole "
        "file of both."
    )


def check_entry(entry: Any, path: Path | None) -> None:
    """Make sure that a file's words on its base can be read.

    Raises:
        AsdfError: they are damaged.
    """
    if isinstance(entry, Mapping):
        values = (entry.get("weights"), entry.get("digest"))
        if all(isinstance(value, str) for value in values):
            return
    raise AsdfError(f"{path} is damaged: what it says of its base cannot be read.")


def _chosen(state: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    return {name: whole_tensor(state[name]) for name in sorted(names)}
