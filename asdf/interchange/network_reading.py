"""Networks from their own files: a detector comes back from its file alone.

Invariant: nothing in a file is executed. A file names its network's class, and only a class of
`asdf.networks`, or one in a folder that the caller names, is built; the rest of the file is plain
values and tensors. The same file gives the same network on every machine, whatever the settings
there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.interchange.base import check_base, find_base
from asdf.interchange.building import build_for, build_on_base
from asdf.interchange.fitting import load_layers
from asdf.interchange.heads import add_heads, describe_heads, name_heads, without_heads
from asdf.interchange.hub import is_hub_folder, read_hub_folder, read_safetensors_network
from asdf.interchange.network_file import ORIGINAL_NUMBERS, NetworkFile, OtherLayoutError
from asdf.interchange.state_dicts import check_tensors
from asdf.interchange.trained_losses import LOSS, add_loss, describe_loss
from asdf.interchange.weights_file import read_weights_file
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.tuning.low_rank import merge_updates
from asdf.settings.sections import Sections
from asdf.text import shorten

_SHOWN = 8


def read_network(
    path: str | Path, folder: Path | None = None, base: str | None = None
) -> tuple[nn.Module, NetworkFile]:
    """Read the network of a file, in eval mode on the CPU, and all else that the file holds.

    Updates of LoRA are merged into the weights, and layers that the file leaves out are read from
    its base: what is returned describes the network as it is then.

    Args:
        path: a network file; or a safetensors file or a folder, as `export` writes them.
        folder: where the module of a user's own network class lies; without it only the project's
            classes are built.
        base: the pretrained weights of a file that holds only what was trained; None: where they
            were when it was trained.

    Raises:
        AsdfError: the file cannot be read, is no ASDF network, or its weights do not fit the
            network it describes; its base is missing or another.

    Examples:
        >>> import torch
        >>> from asdf.interchange import read_network
        >>> network, file = read_network("network.pt")
        >>> embeddings_BE, logits_B2 = network(torch.zeros(1, 16000))
        >>> logits_B2.shape, network.training
        (torch.Size([1, 2]), False)
    """
    path = Path(path)
    file = read_network_file(path)
    if not file.is_described:
        raise OtherLayoutError(
            f"{path} holds weights, but does not say of which network. Turn it into a network of "
            f"ASDF first: python -m asdf import {path} OUT"
        )
    # A layer that is no tensor is named by the check of layers, as one of another shape.
    tensors = {name: value for name, value in file.state.items() if isinstance(value, Tensor)}
    check_tensors(tensors, path)
    settings = file.to_sections(folder=folder)
    network = _build_network(file, settings, folder, base)
    fill_for_scoring(network, file, folder, settings)
    merged = merge_updates(network)
    if merged or file.base is not None:
        file = file.whole(network.state_dict(), updates_merged=bool(merged))
    return network.eval(), file


def _build_network(
    file: NetworkFile, settings: Sections, folder: Path | None, base: str | None
) -> nn.Module:
    """Build the network of a file, in which only the layers of the file's base are loaded."""
    state = without_heads(LOSS.without(file.state), file.all_heads)
    source = str(file.path)
    if file.base is None:
        return build_for(settings, state, source, folder, _advice_for(file), ORIGINAL_NUMBERS)
    weights = find_base(file.base, file.path, base)
    return build_on_base(settings, state, source, folder, weights, ORIGINAL_NUMBERS)


def read_network_file(path: Path, mapped: bool = False) -> NetworkFile:
    """Read a network file on the CPU; or a safetensors file or a folder, as `export` writes them.

    Args:
        mapped: as of `read_weights_file`; a new file may be put at `path` meanwhile.

    Raises:
        AsdfError: there is no such file, or it is no network.
    """
    if is_hub_folder(path):
        return read_hub_folder(path)
    if path.suffix == ".safetensors":
        return read_safetensors_network(path)
    return NetworkFile.from_content(read_weights_file(path, "the network", mapped), path)


def fill_network(network: nn.Module, file: NetworkFile) -> None:
    """Put the weights of `file` into `network`.

    Raises:
        AsdfError: the file is of another network or loss, or belongs to other pretrained weights
            than the network has; `network` is then unchanged.
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


def fill_for_scoring(
    network: nn.Module,
    file: NetworkFile,
    folder: Path | None = None,
    settings: Sections | None = None,
) -> None:
    """Put the weights of `file` into `network`, with a loss that gives the scores as a part of it,
    and a head that traces sources.

    Args:
        folder: where the module of a user's own loss lies.
        settings: Settings of the file, if they are known already.

    Raises:
        AsdfError: the file is of another network, or its loss cannot be built.
    """
    state = file.state
    source = str(file.path)
    if file.loss is not None:
        settings = settings or file.to_sections(folder=folder)
        if not add_loss(network, file.loss, settings, state, source, folder):
            state = LOSS.without(state)
    if file.all_heads:
        settings = settings or file.to_sections(folder=folder)
        add_heads(network, file.all_heads, settings, file.state, source, folder)
    _load(network, file, state)


def _load(network: nn.Module, file: NetworkFile, state: dict[str, Any]) -> None:
    """Put `state`, of `file`, into the network; layers that the file leaves out are its base's."""
    absent: list[str] = []
    if file.base is not None:
        check_base(network, state, file.base, file.path)
        absent = [name for name in network.state_dict() if name not in state]
    load_layers(network, state, str(file.path), _advice_for(file), ORIGINAL_NUMBERS, absent)
    for module in network.modules():
        if isinstance(module, FrontEnd):
            # Of the run that wrote the file: its name may mean another commit by now.
            module.pretrained = file.pretrained if isinstance(file.pretrained, str) else None


def _name_loss(entry: Any) -> str:
    """Return the class in a file's entry on its loss."""
    if not isinstance(entry, dict):
        return "a loss without numbers of its own"
    return f"the loss {shorten(str(entry.get('class')))} of {entry.get('dimension')} numbers"


def _advice_for(file: NetworkFile) -> str:
    network_class = shorten(str(file.network_class or "unknown"))
    return (
        f"They are of the network class {network_class}. Set network.network_class and "
        "front_end.architecture to those it was trained with, or give this run another "
        "paths.system_folder."
    )
