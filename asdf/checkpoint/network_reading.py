"""Restoring networks from their own files, which are sufficient to build a detector.

Invariant: nothing in a file is executed. A file names its network's class, and only a class of
`asdf.networks`, or in a folder that the caller names, is built; the rest of the file is plain
values and tensors. A file gives the same network on every machine, whatever the settings there.

Networks as safetensors: a single file, or a folder for Hugging Face's uploader.

Invariant: a written network reads back unchanged, tensor by tensor and setting by setting, except
for paths. A folder's `config.json` says how to build the network; the weights are in
`model.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from asdf.checkpoint.attached_parts import (
    LOSS,
    Build,
    DescribedNetwork,
    add_heads,
    add_loss,
    describe_heads,
    describe_loss,
    name_heads,
    without_parts,
)
from asdf.checkpoint.base_weights import check_base, find_base, load_layers
from asdf.checkpoint.network_file import FORMAT, ORIGINAL_NUMBERS, NetworkFile, OtherLayoutError
from asdf.checkpoint.weights_file import check_plain, check_tensors, read_json, read_weights_file
from asdf.errors import AsdfError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.tuning import merge_updates
from asdf.runs.files import atomic_write, write_text
from asdf.text import printable, shorten

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
CARD = "README.md"
# The metadata key of a safetensors file for the description of the network.
_ENTRY = "asdf"
# transformers reads only files with this mark.
MARK = {"format": "pt"}
MODEL_TYPE = "asdf_detector"
"""Type of a folder that transformers loads."""
TRANSFORMERS_PREFIX = "network."
"""Prefix of the names of weights in such a folder."""


def is_hub_folder(path: Path) -> bool:
    """Whether `path` is a folder with a configuration."""
    return path.is_dir() and (path / CONFIG).is_file()


def write_hub_folder(folder: Path, file: NetworkFile, card: str) -> None:
    """Write the weights and the configuration of a network file, and its model card.

    Raises:
        AsdfError: `folder` is a file, or cannot be written.
    """
    write_folder(folder, file.state, file.description(), card)


def write_folder(
    folder: Path, state: Mapping[str, Tensor], config: Mapping[str, Any], card: str
) -> None:
    """Write weights, a configuration and a model card.

    Raises:
        AsdfError: `folder` is a file, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise AsdfError(f"cannot write the folder {folder}: there is a file of that name.")
    write_safetensors(folder / WEIGHTS, state, MARK)
    write_text(folder / CARD, card)
    # Written last: a folder with a configuration counts as a network.
    write_text(folder / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def read_hub_folder(folder: Path) -> NetworkFile:
    """Read a network file from a folder.

    Raises:
        AsdfError: the folder holds another program's network, or is incomplete or damaged.
    """
    config = read_json(folder / CONFIG)
    description = config.get("asdf")
    if config.get("model_type") == MODEL_TYPE and isinstance(description, dict):
        tensors, _ = read_safetensors(folder / WEIGHTS)
        named = {name.removeprefix(TRANSFORMERS_PREFIX): each for name, each in tensors.items()}
        # Filters and tables that depend only on the settings were once stored too.
        fixed = description.get("fixed")
        left_out = fixed if isinstance(fixed, list) else []
        state = {name: each for name, each in named.items() if name not in left_out}
        return NetworkFile.from_description(description, state, folder)
    if config.get("format") != FORMAT:
        raise OtherLayoutError(
            f"{folder} is not a detector of ASDF, but a network of type "
            f"{config.get('model_type')!r}. If it is a detector of another program, such as an "
            f"audio classifier of transformers, convert it first: python -m asdf import {folder} "
            "OUT. If it is an encoder alone, name the folder in front_end.weights."
        )
    state, _ = read_safetensors(folder / WEIGHTS)
    return NetworkFile.from_description(config, state, folder)


def write_safetensors_network(path: Path, file: NetworkFile) -> None:
    """Write one safetensors file whose metadata say how to build the network.

    Raises:
        AsdfError: the file cannot be written.
    """
    description = json.dumps(file.description(), ensure_ascii=False)
    write_safetensors(path, file.state, {**MARK, _ENTRY: description})


def read_safetensors_network(path: Path) -> NetworkFile:
    """Read a network file from a safetensors file.

    The result has only weights if the metadata do not say how to build the network.

    Raises:
        AsdfError: the file cannot be read.
    """
    state, metadata = read_safetensors(path)
    try:
        description = json.loads(metadata.get(_ENTRY, "{}"))
        if not isinstance(description, dict):
            raise ValueError("it is not a dictionary in JSON")
        check_plain(description)
    except (ValueError, RecursionError) as error:
        raise AsdfError(f"the metadata of {path} are damaged, '{_ENTRY}': {error}.") from None
    return NetworkFile.from_description(description, state, path)


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the named tensors of a file, and the texts in its `__metadata__`.

    Changing a tensor in place does not change the file.

    Raises:
        AsdfError: the file does not exist, is damaged or has another format.
    """
    tensors = {}
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 (it is not a dictionary)
                tensors[name] = file.get_tensor(name)
    except OSError as error:
        raise AsdfError(
            f"cannot read weights from {path}: {error.strerror or error}. Check the path."
        ) from error
    # torch refuses shapes that it cannot count, for tensors without values.
    except (SafetensorError, RuntimeError, OverflowError) as error:
        reason = shorten(printable(str(error), one_line=True))
        raise AsdfError(
            f"weights file {path} cannot be read: {reason}. It is damaged or cut short (compare "
            "its size with the original; a file of some hundred bytes is a Git LFS pointer), or "
            "not a safetensors file."
        ) from error
    return tensors, metadata


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write copies of `tensors`, by name, with `metadata`.

    Raises:
        AsdfError: a tensor's type is not supported by the format, or the file cannot be written.
    """
    # Cloned, since the package refuses names that share memory, as tied layers do.
    copies = {name: each.detach().cpu().contiguous().clone() for name, each in tensors.items()}
    try:
        content = save(copies, dict(metadata))
    except (SafetensorError, KeyError, ValueError) as error:
        raise AsdfError(f"cannot write {path} as safetensors: {error}.") from error
    with atomic_write(path, "wb") as file:
        file.write(content)


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
    bare = replace(described, state=without_parts(file.state, file.all_heads))
    if file.base is None:
        network = bare.build()
    else:
        # Only the layers of the base are loaded so far.
        network = bare.build(find_base(file.base, file.path, base), build)
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
