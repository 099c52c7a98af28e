"""Files in AntiDeepfake's layout, recognised by the names of their layers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from asdf.checkpoint.fitting import ANTIDEEPFAKE_FRONT_END
from asdf.checkpoint.safetensors import read_safetensors
from asdf.checkpoint.state_dicts import check_tensors

_WEIGHTS = "model.safetensors"


def is_antideepfake(names: Iterable[str]) -> bool:
    """Whether these are names of layers in AntiDeepfake's layout."""
    return any(name.startswith(ANTIDEEPFAKE_FRONT_END) for name in names)


def read_antideepfake(path: Path) -> dict[str, Tensor] | None:
    """Return the layers of a safetensors file in this layout, or of a folder with such a file.

    The result is None without such a file, or for other layer names. A folder's config.json is not
    read: the layers alone identify the network.

    Raises:
        AsdfError: the file is damaged.
    """
    file = path / _WEIGHTS if path.is_dir() else path
    if file.suffix != ".safetensors" or not file.is_file():
        return None
    state, _ = read_safetensors(file)
    if not is_antideepfake(state):
        return None
    check_tensors(state, file)
    return state
