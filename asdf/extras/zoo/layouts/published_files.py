"""Published layouts in any folder, and in the parts that training programs hold them in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from asdf.checkpoint.network_file import FORMAT
from asdf.checkpoint.safetensors_network import CONFIG, MODEL_TYPE
from asdf.checkpoint.weights_file import read_json, state_dict_in, without_prefix
from asdf.extras.zoo.layouts.hub.df_arena import is_df_arena
from asdf.extras.zoo.layouts.name_maps.known import name_map_of
from asdf.extras.zoo.layouts.published import front_end_prefix
from asdf.extras.zoo.layouts.sizes import class_of_layers


def is_folder_of_others(path: Path) -> bool:
    """Whether a folder is not one that `export` of ASDF wrote."""
    config = path / CONFIG
    content = read_json(config) if config.is_file() else {}
    is_ours = content.get("format") == FORMAT or content.get("model_type") == MODEL_TYPE
    return path.is_dir() and not is_ours


def unwrapped(state: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the layers of a detector without the names of parts that programs hold it in.

    Such a part, `model.` of Lightning's, holds everything. Unknown layers keep their names.
    """
    bare = state
    while not is_known(bare):
        prefix = next(iter(bare), "").partition(".")[0] + "."
        inner = without_prefix(bare, prefix)
        if inner is None:
            return state
        bare = state_dict_in(inner, path)
    return bare


def is_known(state: Mapping[str, Tensor]) -> bool:
    """Whether layers have the names of a published layout."""
    known = front_end_prefix(state) or name_map_of(state) or class_of_layers(state)
    return bool(known) or is_df_arena(state)
