"""The named tensors in files of other programs, wherever they nest them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.text import shorten

OUR_KEY = "model_state_dict"
"""Under which key ASDF saves the weights, the original one too."""

STATE_KEYS = ("model", "network", "state_dict", OUR_KEY, "model_state")
"""Under which of these keys programs save the weights, the first one first."""

READABLE = (
    "Front ends are read from fairseq checkpoints, folders of Hugging Face (wav2vec 2.0, HuBERT, "
    "WavLM), state dicts of torchaudio's wav2vec 2.0 and WavLM networks, and published detectors; "
    "which detectors those are, `python -m asdf import --help` says"
)
MAX_SHARED = 4
"""Layers may share numbers, as tied weights do, and together be this many times what is stored."""

_DATA_PARALLEL = "module."
_NAMES_SHOWN = 8


def nested_key(content: Mapping[str, Any]) -> str | None:
    """Return the key under which a file's weights are; None where they are not nested."""
    for key in STATE_KEYS:
        if isinstance(content.get(key), Mapping):
            return key
    return None


def state_dict_in(content: Mapping[str, Any], path: str | Path) -> dict[str, Tensor]:
    """Return a file's named tensors, without the `module.` that DataParallel puts before each name.

    Raises:
        AsdfError: there are none, or they are not of plain numbers.
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
    # All or none: a network may have a part of its own that is called `module`.
    if all(name.startswith(_DATA_PARALLEL) for name in state):
        return {name.removeprefix(_DATA_PARALLEL): tensor for name, tensor in state.items()}
    return state


def check_names(state: Mapping[Any, Any], path: str | Path) -> None:
    """Refuse layers that are named by anything but texts.

    Raises:
        AsdfError: names the first of them.
    """
    for name in state:
        if not isinstance(name, str):
            raise AsdfError(
                f"weights file {path} is damaged: it names a layer {shorten(repr(name))}, and "
                "layers have texts for names."
            )


def check_tensors(state: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse tensors that would take more memory than their file once they are copied.

    Raises:
        AsdfError: one is sparse, quantized or has no numbers, or they view the same numbers over
            and over.
    """
    claimed = 0
    stored: dict[int, int] = {}
    for name, tensor in state.items():
        # These may be of any shape and have hardly a number in the file.
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise AsdfError(
                f"weights file {path} holds a tensor that is not of plain numbers: {name}. "
                f"{READABLE}."
            )
        claimed += tensor.numel() * tensor.element_size()
        storage = tensor.untyped_storage()
        # By their storage, so that what several layers share counts once.
        stored[storage.data_ptr()] = storage.nbytes()
    held = sum(stored.values())
    if claimed > MAX_SHARED * held:
        raise AsdfError(
            f"weights file {path} is refused: its tensors claim {claimed:,} bytes, and it holds "
            f"{held:,}. It is damaged or malicious."
        )
