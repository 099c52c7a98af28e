"""Reading the weight files of other programs without running anything that is in them.

Invariant: only `torch.load(weights_only=True)` opens a file, with the few further types that fairseq's checkpoints
hold. None of these types can run code: a namespace of plain values, numbers of numpy, and an empty stand-in.
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

STATE_KEYS = ("model", "network", "state_dict", "model_state_dict")
READABLE = (
    "Readable are fairseq checkpoints, published SSL_Anti-spoofing and AASIST networks, "
    "and state dicts of torchaudio's wav2vec 2.0 networks"
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
        with torch.serialization.safe_globals(_ALLOWED):
            # Mapped files are read as the weights are copied: processes of one node share the memory.
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
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
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    return state


def _reason(error: Exception) -> str:
    """The line that tells the reason, without torch's advice around it on how to run the file after all."""
    before, marked, after = str(error).partition("WeightsUnpickler error:")
    lines = [line.strip() for line in (after if marked else before).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Weights only load failed", "Check the doc"))]
    return told[0].split("Please use")[0].strip().rstrip(".") if told else "no reason is given"
