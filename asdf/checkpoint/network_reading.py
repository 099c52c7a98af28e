"""Restoring networks from their own files, which are sufficient to build a detector.

Invariant: nothing in a file is executed. A file names its network's class, and only a class of
`asdf.networks`, or in a folder that the caller names, is built; the rest of the file is plain
values and tensors. A file gives the same network on every machine, whatever the settings there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from asdf.checkpoint.attached_parts import (
    LOSS,
    add_heads,
    add_loss,
    describe_heads,
    describe_loss,
    name_heads,
    without_parts,
)
from asdf.checkpoint.base_weights import check_base, find_base
from asdf.checkpoint.described_network import Build, DescribedNetwork
from asdf.checkpoint.fitting import load_layers
from asdf.checkpoint.network_file import ORIGINAL_NUMBERS, NetworkFile, OtherLayoutError
from asdf.checkpoint.safetensors_network import (
    is_hub_folder,
    read_hub_folder,
    read_safetensors_network,
)
from asdf.checkpoint.weights_file import check_tensors, read_weights_file
from asdf.errors import AsdfError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.tuning import merge_updates
from asdf.text import shorten

_SHOWN = 8


def rebuild_network(
    path: Path, build: Build, folder: Path | None = None, base: str | None = None
) -> tuple[nn.Module, NetworkFile]:
    """Rebuild the network of a file, in eval mode on the CPU; also return the file's content.

    Args:
        build: Function that builds a network on its base, the pretrained weights.
        path, folder, base: Arguments as in `asdf.interchange.read_network`.

    Raises:
        AsdfError: as in `asdf.interchange.read_network`.
    """
    file = read_network_file(path)
    if not file.is_described:
        raise OtherLayoutError(
            f"{path} contains weights, but does not say of which network. Convert it first: python "
            f"-m asdf import {path} OUT"
        )
    # The check of layers reports an entry that is not a tensor as one of another shape.
    tensors = {name: value for name, value in file.state.items() if isinstance(value, Tensor)}
    check_tensors(tensors, path)
    described = _describe(file, folder)
    state = without_parts(file.state, file.all_heads)
    bare = replace(described, state=state)
    if file.base is None:
        network = bare.build()
    else:
        # Only the layers of the base are loaded so far.
        network = bare.build_on_base(find_base(file.base, file.path, base), build)
    _fill(network, file, described)
    merged = merge_updates(network)
    if merged or file.base is not None:
        file = file.whole(network.state_dict(), updates_merged=bool(merged))
    return network.eval(), file


def _describe(file: NetworkFile, folder: Path | None) -> DescribedNetwork:
    """Return the network of a file, described with all layers of the file."""
    return DescribedNetwork(
        file.to_sections(folder=folder),
        file.state,
        str(file.path),
        folder,
        _advice_for(file),
        ORIGINAL_NUMBERS,
    )


def read_network_file(path: Path, mapped: bool = False) -> NetworkFile:
    """Read a network file on the CPU, or a safetensors file or folder written by `export`.

    Args:
        mapped: Whether values are read lazily, as in `read_weights_file`; the file may be replaced.

    Raises:
        AsdfError: the file does not exist or is not a network.
    """
    if is_hub_folder(path):
        return read_hub_folder(path)
    if path.suffix == ".safetensors":
        return read_safetensors_network(path)
    return NetworkFile.from_content(read_weights_file(path, "the network", mapped), path)


def fill_network(network: nn.Module, file: NetworkFile) -> None:
    """Load the weights of `file` into `network`.

    Raises:
        AsdfError: the file is of another network or loss, or belongs to other pretrained weights;
            `network` is then unchanged.
    """
    described = describe_loss(network)
    if file.loss != described:
        raise AsdfError(
            f"{file.path} was trained with {_name_loss(file.loss)}, and this run trains with "
            f"{_name_loss(described)}. Set network.loss and network.score to what they were, or "
            "give this run another paths.system_folder."
        )
    heads = describe_heads(network)
    if file.all_heads != heads:
        raise AsdfError(
            f"{file.path} was trained with {name_heads(file.all_heads)}, and this run trains with "
            f"{name_heads(heads)}. Set the section source and network.tasks to what they were, "
            "train on the same list, or give this run another paths.system_folder."
        )
    _load(network, file, file.state)


def fill_for_scoring(network: nn.Module, file: NetworkFile, folder: Path | None = None) -> None:
    """Put the weights of `file` into `network`, with a loss that gives the scores as a part of it,
    and the heads of its tasks.

    Args:
        folder: Folder that holds the module of a user's own loss.

    Raises:
        AsdfError: the file is of another network, or its loss cannot be built.
    """
    # The settings of a file without a network description are not needed and may be invalid.
    has_parts = file.loss is not None or bool(file.all_heads)
    _fill(network, file, _describe(file, folder) if has_parts else None)


def _fill(network: nn.Module, file: NetworkFile, described: DescribedNetwork | None) -> None:
    """Add the parts of `file` to its network, and load all layers."""
    state = file.state
    if described is not None:
        if file.loss is not None and not add_loss(network, file.loss, described):
            state = LOSS.without(state)
        add_heads(network, file.all_heads, described)
    _load(network, file, state)


def _load(network: nn.Module, file: NetworkFile, state: dict[str, Any]) -> None:
    """Load `state`, from `file`, into the network; omitted layers are those of its base."""
    absent: list[str] = []
    if file.base is not None:
        check_base(network, state, file.base, file.path)
        absent = [name for name in network.state_dict() if name not in state]
    load_layers(network, state, str(file.path), _advice_for(file), ORIGINAL_NUMBERS, absent)
    for module in network.modules():
        if isinstance(module, FrontEnd):
            # The one in the file, since its name may refer to another commit by now.
            module.pretrained = file.pretrained if isinstance(file.pretrained, str) else None


def _name_loss(entry: Any) -> str:
    """Return the class name in a file's entry about its loss."""
    if not isinstance(entry, dict):
        return "a loss without parameters"
    return f"the loss {shorten(str(entry.get('class')))} of {entry.get('dimension')} numbers"


def _advice_for(file: NetworkFile) -> str:
    network_class = shorten(str(file.network_class or "unknown"))
    return (
        f"They are of the network class {network_class}. Set network.network_class and "
        "front_end.architecture to those it was trained with, or give this run another "
        "paths.system_folder."
    )
