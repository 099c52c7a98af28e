"""The named tensors in files of other programs, at any nesting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.text import shorten

OUR_KEY = "model_state_dict"
"""Key of the weights in ASDF's files, including those of the original."""

STATE_KEYS = ("model", "network", "state_dict", OUR_KEY, "model_state")
"""Keys of the weights in files of other programs, in the order of the search."""

READABLE = (
    "Front ends are read from fairseq checkpoints, folders of Hugging Face (wav2vec 2.0, HuBERT, "
    "WavLM), state dicts of torchaudio's wav2vec 2.0 and WavLM networks, and published detectors; "
    "`python -m asdf import --help` lists these detectors"
)
MAX_SHARED = 4
"""Maximum ratio of the layers' total size to the stored size, since layers may share values."""

_DATA_PARALLEL = "module."
_NAMES_SHOWN = 8


def nested_key(content: Mapping[str, Any]) -> str | None:
    """Return the key of the nested weights in a file; None if they are not nested."""
    for key in STATE_KEYS:
        if isinstance(content.get(key), Mapping):
            return key
    return None


def state_dict_in(content: Mapping[str, Any], path: str | Path) -> dict[str, Tensor]:
    """Return a file's named tensors, without DataParallel's prefix `module.`.

    Raises:
        AsdfError: there are no tensors, or they are not plain.
    """
    key = nested_key(content)
    layers = content[key] if key else content
    check_names(layers, path)
    # Programs also save plain numbers among the layers, the original ASDF two of them.
    state = {name: value for name, value in layers.items() if isinstance(value, Tensor)}
    if not state:
        keys = ", ".join(map(str, list(content)[:_NAMES_SHOWN]))
        raise AsdfError(
            f"weights file {path} holds no tensors, only {keys or 'nothing'}. {READABLE}."
        )
    check_tensors(state, path)
    # Only if all names have it, since a network may have a part called `module`.
    if all(name.startswith(_DATA_PARALLEL) for name in state):
        return {name.removeprefix(_DATA_PARALLEL): tensor for name, tensor in state.items()}
    return state


def check_names(state: Mapping[Any, Any], path: str | Path) -> None:
    """Refuse layers whose names are not texts.

    Raises:
        AsdfError: there are such layers; the message names the first one.
    """
    for name in state:
        if not isinstance(name, str):
            raise AsdfError(
                f"weights file {path} is damaged: the name of a layer is {shorten(repr(name))}, "
                "which is not a string."
            )


def check_tensors(state: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse tensors that would take more memory than their file when copied.

    Raises:
        AsdfError: a tensor is sparse, quantized or has no values, or tensors share the same values
            repeatedly.
    """
    claimed = 0
    stored: dict[int, int] = {}
    for name, tensor in state.items():
        # Such tensors may have any shape but hardly any values in the file.
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise AsdfError(
                f"weights file {path} holds a tensor that is not of plain numbers: {name}. "
                f"{READABLE}."
            )
        claimed += tensor.numel() * tensor.element_size()
        storage = tensor.untyped_storage()
        # By storage, so that values shared by several layers count once.
        stored[storage.data_ptr()] = storage.nbytes()
    held = sum(stored.values())
    if claimed > MAX_SHARED * held:
        raise AsdfError(
            f"weights file {path} is refused: its tensors claim {claimed:,} bytes, and it holds "
            f"{held:,}. It is damaged or malicious."
        )
