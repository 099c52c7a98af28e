"""Networks as safetensors: a single file, or a folder for Hugging Face's uploader.

Invariant: a written network reads back unchanged, tensor by tensor and setting by setting, except
for paths. A folder's `config.json` says how to build the network; the weights are in
`model.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from asdf.checkpoint.network_file import FORMAT, NetworkFile, OtherLayoutError
from asdf.checkpoint.weights_file import check_plain, read_json
from asdf.errors import AsdfError
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
    if config.get("model_type") == MODEL_TYPE and isinstance(config.get("asdf"), dict):
        return _read_transformers_folder(folder, config["asdf"])
    if config.get("format") != FORMAT:
        raise OtherLayoutError(
            f"{folder} is not a detector of ASDF, but a network of type "
            f"{config.get('model_type')!r}. If it is a detector of another program, such as an "
            f"audio classifier of transformers, convert it first: python -m asdf import {folder} "
            "OUT. If it is an encoder alone, name the folder in front_end.weights."
        )
    state, _ = read_safetensors(folder / WEIGHTS)
    return NetworkFile.from_description(config, state, folder)


def _read_transformers_folder(folder: Path, description: dict[str, Any]) -> NetworkFile:
    """Read a folder of `export --format transformers`."""
    tensors, _ = read_safetensors(folder / WEIGHTS)
    # Filters and tables that depend only on the settings were once stored too.
    fixed = description.get("fixed")
    left_out = fixed if isinstance(fixed, list) else []
    state = {}
    for name, tensor in tensors.items():
        own_name = name.removeprefix(TRANSFORMERS_PREFIX)
        if own_name not in left_out:
            state[own_name] = tensor
    return NetworkFile.from_description(description, state, folder)


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
    copies = {}
    for name, tensor in tensors.items():
        # The package refuses names that share memory, as tied layers do.
        copies[name] = tensor.detach().cpu().contiguous().clone()
    try:
        content = save(copies, dict(metadata))
    except (SafetensorError, KeyError, ValueError) as error:
        raise AsdfError(f"cannot write {path} as safetensors: {error}.") from error
    with atomic_write(path, "wb") as file:
        file.write(content)
