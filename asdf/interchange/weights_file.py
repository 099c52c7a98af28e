"""Reading the weight files of other programs without running anything that is in them.

Invariant: only `torch.load(weights_only=True)` opens a file, with the few further types that
fairseq's checkpoints hold. None of these types can run code: a namespace of plain values, numbers
of numpy, and an empty stand-in. What a file claims to hold is held against its size first, and its
plain values are bounded before anyone else sees them.
"""

from __future__ import annotations

import pickle
import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.interchange.file_kinds import other_kind
from asdf.interchange.numpy_numbers import NUMPY_NUMBERS
from asdf.interchange.pickle_sizes import check_sizes
from asdf.interchange.plain_values import check_plain
from asdf.runs.files import atomic_write
from asdf.text import printable, shorten

MOST_SHARED = 4
"""Layers may share numbers, as tied weights do; so many times what is stored they may be together."""

STATE_KEYS = ("model", "network", "state_dict", "model_state_dict")
READABLE = (
    "Readable are fairseq checkpoints, folders of Hugging Face (wav2vec 2.0, HuBERT, WavLM), published "
    "SSL_Anti-spoofing and AASIST networks, and state dicts of torchaudio's wav2vec 2.0 and WavLM networks"
)
# What torch says of a type or function that it does not know.
_GLOBAL = re.compile(r"GLOBAL (.*?) (?:was not an allowed|whose module)", re.DOTALL)


class StandIn:
    """Takes the place of an object of fairseq's that the weights do not need; it holds nothing."""

    def __setstate__(self, state: object) -> None:
        pass


# Types go by the names that the files use.
_ALLOWED: list[Any] = [
    Namespace,
    (StandIn, "fairseq.data.dictionary.Dictionary"),
    *NUMPY_NUMBERS,
]


def read_weights_file(path: str | Path) -> Mapping[str, Any]:
    """The dictionary that a file of `torch.save` holds, on the CPU.

    Raises:
        AsdfError: the file is missing, damaged, or asks for anything but plain values and tensors.
    """
    path = Path(path)
    # Mapped files are read as the weights are copied: processes of one node share the memory.
    content = load_file(path, "weights from", mapped=True)
    if not isinstance(content, Mapping):
        raise AsdfError(
            f"weights file {path} holds a {type(content).__name__}, not a dictionary. {READABLE}."
        )
    return content


def load_file(path: Path, what: str, mapped: bool = False) -> Any:
    """What a file of `torch.save` holds, on the CPU, or one message for whatever keeps it from being read.

    Args:
        what: how the message calls it: "cannot read WHAT PATH".

    Raises:
        AsdfError: there is no such file, it is damaged or of another kind, or asks for more than
            plain values and tensors.
    """
    if not path.is_file():
        reason = "it is a folder" if path.is_dir() else "there is no such file"
        raise AsdfError(
            f"cannot read {what} {path}: {reason}. Check the path; it is relative to {Path.cwd()}."
        )
    if kind := other_kind(path):
        raise AsdfError(f"cannot read {what} {path}: it is {kind}.")
    try:
        return load_plain(path, mapped)
    except pickle.UnpicklingError as error:
        raise AsdfError(
            f"cannot read {what} {path}. It is refused, and nothing in it was run: {error}. "
            "Such a file holds tensors and plain values only; this one is damaged, made for "
            "another program, or malicious. If it is to be trusted, ask those who made it for its "
            "state dict alone, saved by torch.save(model.state_dict(), PATH)."
        ) from None
    except ValueError as error:
        raise AsdfError(
            f"cannot read {what} {path}: {error}. It is damaged or no network of ASDF, and nothing "
            "in it was run. Compare its size with the original's, and copy or download it again."
        ) from None


def load_plain(path: Path, mapped: bool = False) -> Any:
    """What a file of `torch.save` holds, on the CPU.

    Args:
        mapped: numbers are read from the file when they are used, where its format allows it.

    Raises:
        UnpicklingError: it asks for something that is neither a tensor nor a plain value, or
            claims too much.
        ValueError: it is damaged, of another kind, or its plain values are out of bounds.
    """
    try:
        zipped = check_sizes(path)
        with torch.serialization.safe_globals(_ALLOWED):
            content = torch.load(
                path, map_location="cpu", weights_only=True, mmap=mapped and zipped
            )
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(_reason(error)) from None
    except Exception as error:  # a damaged file can fail anywhere in the unpickler
        raise ValueError(_reason(error)) from None
    check_plain(content, path.stat().st_size)
    return content


def write_state(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write named tensors as other programs load them, atomically.

    Raises:
        AsdfError: the folder cannot be written or the disk is full; what was at `path` is unchanged.
    """
    try:
        with atomic_write(path, "wb") as file:
            torch.save(dict(state), file)
    except RuntimeError as error:  # torch's zip writer tells a full disk so
        raise AsdfError(
            f"cannot write {path}: {str(error).splitlines()[0]} Is the disk full?"
        ) from error


def state_dict_in(content: Mapping[str, Any], path: str | Path) -> dict[str, Tensor]:
    """The named tensors of a file, without the `module.` that DataParallel puts before every name.

    Raises:
        AsdfError: there are none.
    """
    nested = (content[key] for key in STATE_KEYS if isinstance(content.get(key), Mapping))
    inside = next(nested, content)
    check_names(inside, path)
    state = {name: value for name, value in inside.items() if isinstance(value, Tensor)}
    if not state:
        keys = ", ".join(map(str, list(content)[:8]))
        raise AsdfError(
            f"weights file {path} holds no tensors, only {keys or 'nothing'}. {READABLE}."
        )
    check_tensors(state, path)
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    return state


def check_names(state: Mapping[Any, Any], path: str | Path) -> None:
    """Refuse layers that are named by anything but texts.

    Raises:
        AsdfError: names the first of them.
    """
    wrong = next((name for name in state if not isinstance(name, str)), None)
    if wrong is not None:
        raise AsdfError(
            f"weights file {path} is damaged: it names a layer {shorten(repr(wrong))}, and layers "
            "have texts for names."
        )


def check_tensors(state: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse tensors that would take more memory than their file once they are copied.

    Raises:
        AsdfError: one is sparse, quantized or has no numbers, or they view the same numbers over and over.
    """
    for name, tensor in state.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise AsdfError(
                f"weights file {path} holds a tensor that is not of plain numbers: {name}. {READABLE}."
            )
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in state.values()
    }
    claimed, held = (
        sum(tensor.numel() * tensor.element_size() for tensor in state.values()),
        sum(storages.values()),
    )
    if claimed > MOST_SHARED * held:
        raise AsdfError(
            f"weights file {path} is refused: its tensors claim {claimed:,} bytes, and it holds {held:,}. "
            "It is damaged or malicious."
        )


def _reason(error: Exception) -> str:
    """What torch met, as a terminal may have it, without its advice on how to run the file."""
    before, marked, after = str(error).partition("WeightsUnpickler error:")
    text = after if marked else before
    if wanted := _GLOBAL.search(text):
        name = shorten(printable(wanted[1], one_line=True))
        return f"it asks for {name}, which is neither a tensor nor a plain value"
    lines = [line.strip() for line in text.split("\n")]
    reasons = [
        line
        for line in lines
        if line and not line.startswith(("Weights only load failed", "Check the doc"))
    ]
    if not reasons or "weights_only" in reasons[0]:
        return f"torch cannot load it ({type(error).__name__})"
    return shorten(printable(reasons[0].split("Please use")[0].strip().rstrip("."), one_line=True))
