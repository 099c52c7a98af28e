"""Reading the weight files of other programs without running anything that is in them.

Invariant: only `torch.load(weights_only=True)` opens a file, with the few further types that fairseq's checkpoints
hold. None of these types can run code: a namespace of plain values, numbers of numpy, and an empty stand-in. What a
file claims to hold is held against its size first.
"""

from __future__ import annotations

import argparse
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.networks.pickle_sizes import check_sizes
from asdf.runs.files import atomic_write

MOST_SHARED = 4
"""Layers may share numbers, as tied weights do; so many times what is stored they may be together."""

STATE_KEYS = ("model", "network", "state_dict", "model_state_dict")
READABLE = (
    "Readable are fairseq checkpoints, folders of Hugging Face (wav2vec 2.0, HuBERT, WavLM), published "
    "SSL_Anti-spoofing and AASIST networks, and state dicts of torchaudio's wav2vec 2.0 and WavLM networks"
)


class StandIn:
    """Takes the place of an object of fairseq's that the weights do not need; it holds nothing."""

    def __setstate__(self, state: object) -> None:
        pass


# Types go by the names that the files use; numpy renamed the module of its scalars.
_NUMPY_SCALAR = np.float64(0).__reduce__()[0]
_ALLOWED: list[Any] = [
    argparse.Namespace,
    (StandIn, "fairseq.data.dictionary.Dictionary"),
    (_NUMPY_SCALAR, "numpy.core.multiarray.scalar"),
    (_NUMPY_SCALAR, "numpy._core.multiarray.scalar"),
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("float32", "float64", "int32", "int64", "bool")),
]


def read_weights_file(path: str | Path) -> Mapping[str, Any]:
    """The dictionary that a file of `torch.save` holds, on the CPU.

    Raises:
        AsdfError: the file is missing, damaged, or asks for anything but plain values and tensors.
    """
    path = Path(path)
    if not path.is_file():
        reason = "it is a folder" if path.is_dir() else "there is no such file"
        raise AsdfError(f"cannot read weights from {path}: {reason}. Check the path; it is relative to {Path.cwd()}.")
    try:
        # Mapped files are read as the weights are copied: processes of one node share the memory.
        content = load_plain(path, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        raise AsdfError(
            f"weights file {path} is refused, and nothing in it was run: {_reason(error)}. A file of weights "
            "holds tensors and plain values only; this one is damaged, made for another program, or malicious. If "
            "you trust it, load it in the program that made it and save the state dict alone: "
            "torch.save(model.state_dict(), 'weights.pt')."
        ) from error
    except Exception as error:  # a damaged file can fail anywhere in the unpickler
        raise AsdfError(
            f"weights file {path} cannot be read: {type(error).__name__}: {_reason(error)}. It is damaged or cut "
            f"short (compare its size with the original), or not a file of torch.save. {READABLE}."
        ) from error
    if not isinstance(content, Mapping):
        raise AsdfError(f"weights file {path} holds a {type(content).__name__}, not a dictionary. {READABLE}.")
    return content


def load_plain(path: Path, mmap: bool = False) -> Any:
    """What a file of `torch.save` holds, on the CPU; raises whatever the unpickler meets."""
    check_sizes(path)
    with torch.serialization.safe_globals(_ALLOWED):
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)


def write_state(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write named tensors as other programs load them, atomically.

    Raises:
        AsdfError: the folder cannot be written or the disk is full; what was at `path` is unchanged.
    """
    try:
        with atomic_write(path, "wb") as file:
            torch.save(dict(state), file)
    except RuntimeError as error:  # torch's zip writer tells a full disk so
        raise AsdfError(f"cannot write {path}: {str(error).splitlines()[0]} Is the disk full?") from error


def state_dict_in(content: Mapping[str, Any], path: str | Path) -> dict[str, Tensor]:
    """The named tensors of a file, without the `module.` that DataParallel puts before every name.

    Raises:
        AsdfError: there are none.
    """
    nested = (content[key] for key in STATE_KEYS if isinstance(content.get(key), Mapping))
    state = {name: value for name, value in next(nested, content).items() if isinstance(value, Tensor)}
    if not state:
        keys = ", ".join(map(str, list(content)[:8]))
        raise AsdfError(f"weights file {path} holds no tensors, only {keys or 'nothing'}. {READABLE}.")
    check_tensors(state, path)
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    return state


def check_tensors(state: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse tensors that would take more memory than their file once they are copied.

    Raises:
        AsdfError: one is sparse, quantized or has no numbers, or they view the same numbers over and over.
    """
    for name, tensor in state.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise AsdfError(f"weights file {path} holds a tensor that is not of plain numbers: {name}. {READABLE}.")
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in state.values()}
    claimed, held = sum(tensor.numel() * tensor.element_size() for tensor in state.values()), sum(storages.values())
    if claimed > MOST_SHARED * held:
        raise AsdfError(
            f"weights file {path} is refused: its tensors claim {claimed:,} bytes, and it holds {held:,}. "
            "It is damaged or malicious."
        )


def _reason(error: Exception) -> str:
    """The line that tells the reason, without torch's advice around it on how to run the file after all."""
    before, marked, after = str(error).partition("WeightsUnpickler error:")
    lines = [line.strip() for line in (after if marked else before).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Weights only load failed", "Check the doc"))]
    return told[0].split("Please use")[0].strip().rstrip(".") if told else "no reason is given"
