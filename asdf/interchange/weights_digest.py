"""Identity of the network that made scores: a digest of the weights in its file.

Invariant: copies of a network have the same digest, whatever else their files contain: a
calibration, the state of the optimiser, another format. The digest covers the tensors, in the order
of their names, but not a loss that was trained with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from asdf.checkpoint.base_weights import base_of, saves_only_trained
from asdf.checkpoint.fused_file import is_fused_file, read_fused_file
from asdf.checkpoint.network_file import OtherLayoutError
from asdf.checkpoint.network_reading import read_network_file
from asdf.errors import AsdfError
from asdf.interchange.named_networks import find_network, read_detector
from asdf.networks.attached import PREFIX
from asdf.networks.interface import NetworkSections
from asdf.networks.split import tensors_digest
from asdf.text import AnyPath

# A network in memory has its updates merged and its base filled in, unlike its file.
_FILES: WeakKeyDictionary[nn.Module, Path] = WeakKeyDictionary()


def note_file(network: nn.Module, path: Path) -> None:
    """Record that a network was read from the file at `path`, and is not trained further."""
    _FILES[network] = path


def network_digest(named: AnyPath) -> str:
    """Return the digest of a network, or of a fused system, given by its path or name.

    Raises:
        AsdfError: it cannot be read.
    """
    path = find_network(named)
    if is_fused_file(path):
        system = read_fused_file(path)
        # The calibration is excluded, because raw scores do not depend on it.
        parts = [[network.sha256 for network in system.networks], system.fusion.content()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    try:
        file = read_network_file(path)
    except OtherLayoutError:
        return _digest(read_detector(path)[1].state)
    if not file.is_described:
        # Only weights: of a published layout, or of a network class of a recipe.
        with suppress(AsdfError):
            file = read_detector(path)[1]
    return _digest(file.state)


def digest_in_memory(network: nn.Module, settings: NetworkSections) -> str | None:
    """Return the digest of the current or future file of a network in memory.

    Returns:
        Digest; None if it is unknown which layers its file will omit.
    """
    path = _FILES.get(network)
    if path is not None:
        return network_digest(path)
    state = network.state_dict()
    base = base_of(network)
    if base is None and saves_only_trained(settings):
        return None
    absent = base.names if base is not None else ()
    return _digest({name: value for name, value in state.items() if name not in absent})


def _digest(state: Mapping[str, Any]) -> str:
    tensors = {}
    # Sorted, since copies in other formats may hold the layers in another order.
    for name in sorted(state):
        if isinstance(state[name], Tensor) and not name.startswith(PREFIX):
            tensors[name] = state[name]
    return tensors_digest(tensors)
