"""Safetensors files and folders of the hub in published layouts, recognised by their layers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from asdf.checkpoint.network_file import FORMAT
from asdf.checkpoint.safetensors_network import CONFIG, read_safetensors
from asdf.checkpoint.weights_file import (
    check_tensors,
    read_json,
    read_weights_file,
    state_dict_in,
    without_prefix,
)
from asdf.extras.zoo.layouts.hub.df_arena import is_df_arena
from asdf.extras.zoo.layouts.name_maps.known import name_map_of
from asdf.extras.zoo.layouts.published import is_published
from asdf.extras.zoo.layouts.sizes import class_of_layers

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def read_published(path: Path) -> dict[str, Tensor] | None:
    """Return the layers of a safetensors file or of a folder in a published layout; else None.

    A folder's config.json only shows whether it is ASDF's: authors leave it empty, or write the
    name of their class into it. The layers alone identify the network.

    Raises:
        AsdfError: the file is damaged.
    """
    file = _weights_of(path)
    if file is None:
        return None
    if file.suffix == ".safetensors":
        state, _ = read_safetensors(file)
    else:
        state = state_dict_in(read_weights_file(file), file)
    if path.is_dir():
        state = unwrapped(state, file)
        is_known = _is_known(state)
    else:
        is_known = is_published(state) or name_map_of(state) is not None
    if not is_known:
        return None
    check_tensors(state, file)
    return state


def unwrapped(state: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the layers of a detector without the names of parts that programs hold it in.

    Such a part, `model.` of Lightning's, holds everything. Unknown layers keep their names.
    """
    bare = state
    while not _is_known(bare):
        prefix = next(iter(bare), "").partition(".")[0] + "."
        inner = without_prefix(bare, prefix)
        if inner is None:
            return state
        bare = state_dict_in(inner, path)
    return bare


def _is_known(state: Mapping[str, Tensor]) -> bool:
    if is_published(state) or is_df_arena(state) or name_map_of(state) is not None:
        return True
    return class_of_layers(state) is not None


def _weights_of(path: Path) -> Path | None:
    """Return the file with such layers; None for ASDF's own files, and if there is none."""
    if not path.is_dir():
        is_file = path.suffix == ".safetensors" and path.is_file()
        return path if is_file else None
    config = path / CONFIG
    if config.is_file() and read_json(config).get("format") == FORMAT:
        return None
    files = (path / name for name in _WEIGHTS)
    return next((file for file in files if file.is_file()), None)
