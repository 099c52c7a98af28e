"""Networks given by a path, or by a name on the hub: read, trained further, identified.

Invariant: a config that starts from a network determines what is trained, as always. If it
describes another network, it is refused with the lines that it lacks. Only layers that the config
adds are missing in the initial network, and are initialised randomly.

The digest of a network depends only on the weights of its file, with those of a fused system's
networks, and not on its format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from asdf.checkpoint.base_weights import base_of, load_layers, saves_only_trained
from asdf.checkpoint.fused_file import is_fused_file, read_fused_file
from asdf.checkpoint.network_file import NetworkFile, OtherLayoutError
from asdf.checkpoint.network_reading import read_network_file, rebuild_network
from asdf.errors import AsdfError, UsageError
from asdf.hub import name_of
from asdf.interchange.finding import describe_source, find_network
from asdf.interchange.pretrained import build_pretrained
from asdf.networks.attached import PREFIX
from asdf.networks.build import build_network
from asdf.networks.split import tensors_digest
from asdf.ports import load, provided
from asdf.runs.log import LOG
from asdf.settings.sections import OF_EXTRAS, Sections
from asdf.text import AnyPath

_INITIAL = "network.initial_network"
_FRONT_END = (
    *("front_end_class", "architecture", "layer"),
    *("normalize_waveforms", "repeat_last_frame"),
)
# Layers that a config may add to a network; they are trained from scratch.
_ADDED = ("front_end.masking.", "frame_head.")
# A network in memory has its updates merged and its base filled in, unlike its file.
_FILES: WeakKeyDictionary[nn.Module, Path] = WeakKeyDictionary()


def note_source(file: NetworkFile, path: Path) -> None:
    """Record in a network's file the commit on the hub that it was downloaded from, if any.

    Args:
        path: Path returned by `find_network`.
    """
    name = name_of(path)
    if name is not None:
        file.others["source"] = str(name)


def read_network(
    path: str | Path, folder: Path | None = None, base: str | None = None
) -> tuple[nn.Module, NetworkFile]:
    """Read the network of a file, in eval mode on the CPU, with the other content of the file.

    LoRA updates are merged into the weights, and layers that the file omits are read from its base:
    the returned description is that of the resulting network.

    Args:
        path: Network file; or a safetensors file or a folder written by `export`.
        folder: Folder with the module of your own network class; without it only the project's
            classes are built.
        base: Pretrained weights for a file of only trained weights; None: the location used in
            training.

    Raises:
        AsdfError: the file cannot be read, is not an ASDF network, or its weights do not fit the
            network it describes; or its base is missing or different.

    Examples:
        >>> import torch
        >>> from asdf.interchange import read_network
        >>> network, file = read_network("network.pt")
        >>> embeddings_BE, logits_B2 = network(torch.zeros(1, 16000))
        >>> logits_B2.shape, network.training
        (torch.Size([1, 2]), False)
    """
    return rebuild_network(Path(path), build_pretrained, folder, base)


def read_detector(
    named: AnyPath, folder: Path | None = None, base: str | None = None
) -> tuple[nn.Module, NetworkFile]:
    """Read a detector, in eval mode on the CPU, with the other content of its file.

    A detector of another program is read like in `python -m asdf import`, to be scored as by its
    authors; the settings for that are logged.

    Args:
        named: Path of the network, or its name on the hub.
        folder, base: Folder and pretrained weights, as in `read_network`.

    Raises:
        UsageError: as `find_network`.
        AsdfError: it cannot be downloaded or read, or is not a detector.
    """
    path = find_network(named)
    if is_fused_file(path):
        raise AsdfError(
            f"{path} is a fused system of several networks, but this needs a single network. Name "
            "one of them."
        )
    try:
        network, file = read_network(path, folder, base)
    except OtherLayoutError:
        importer = provided("LAYOUTS").get("import_detector")
        if importer is None:
            raise
        imported = load(f"{importer}.import_detector")(path, None, folder)
        network, file = imported.network, imported.file
        file.path = path
        LOG.info("%s: %s", describe_source(named, path), imported.recognised.layout)
        for note in imported.recognised.notes:
            LOG.info("%s", note)
    note_source(file, path)
    return network, file


def build_on_network(settings: Sections, folder: Path, named: str) -> nn.Module:
    """Build the network of the settings with the weights of a complete network.

    Args:
        folder: Folder of the recipe, for modules of your own.
        named: Path of the network, in any supported layout, or a name on the hub.

    Raises:
        UsageError: the settings describe another network; the message has the lines to add.
        AsdfError: it cannot be read, or has other layers.
    """
    network, file = read_detector(named, folder)
    theirs = file.to_sections(folder=folder)
    names = [("network", "network_class"), ("network", "score")]
    names += [("front_end", name) for name in _FRONT_END]
    for section in ("back_end", "audio", "spectrum", *OF_EXTRAS):
        names += [(section, each.name) for each in fields(getattr(theirs, section))]
    lines = []
    for section, name in names:
        wanted: Any = getattr(getattr(theirs, section), name)
        if getattr(getattr(settings, section), name) != wanted:
            lines.append(f"{section}.{name} = {wanted!r}")
    if settings.front_end.weights is not None:
        lines.append("front_end.weights = None")
    if lines:
        listed = "\n".join(f"    {line}" for line in lines)
        raise UsageError(
            f"{_INITIAL} = {named!r}: the config describes another network than this one. Add to "
            f"the config:\n{listed}"
        )
    state = network.state_dict()

    def load(fresh: nn.Module) -> None:
        added = [
            name for name in fresh.state_dict() if name not in state and name.startswith(_ADDED)
        ]
        load_layers(fresh, state, named, absent=added)

    LOG.info("training starts from %s", named)
    return build_network(settings, folder, load)


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


def digest_in_memory(network: nn.Module, settings: Sections) -> str | None:
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
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    # Sorted, since copies in other formats may hold the layers in another order.
    names = sorted(name for name in tensors if not name.startswith(PREFIX))
    return tensors_digest({name: tensors[name] for name in names})
