"""The safetensors format: a JSON header of names, types, shapes and places, then the numbers.

Invariant: a file is read only if its header fits the file exactly, each tensor its bytes and no byte twice; what a
header claims is never allocated, since the tensors are views of the mapped file.

Source: the format's description in the README of huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import printable, shorten

LARGEST_HEADER = 100_000_000
MOST_DIMENSIONS = 16
LARGEST_SHAPE = 2**40
"""The most numbers that a shape may stand for, its zeros taken for ones: torch counts even empty tensors so."""
_LENGTH = struct.Struct("<Q")
_ALIGNED = 8

_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The named tensors of a file, and the texts of its `__metadata__`.

    Changing a tensor in place does not reach the file.

    Raises:
        AsdfError: there is no such file, or it is damaged or of another format.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            header = _header(file.read(_LENGTH.size), size, file.read)
            start, entries = (
                file.tell(),
                {name: entry for name, entry in header.items() if name != "__metadata__"},
            )
            if beyond := size - start - _data_bytes(entries, size - start):
                raise ValueError(f"it has {beyond:,} bytes too many")
            # Tensors keep the mapping alive; what is written to them stays in this process.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        tensors = {name: _tensor(entry, mapped, start) for name, entry in entries.items()}
    except OSError as error:
        raise AsdfError(
            f"cannot read weights from {path}: {error.strerror or error}. Check the path."
        ) from error
    except ValueError as error:
        raise AsdfError(
            f"weights file {path} cannot be read: {error}. It is damaged or cut short (compare its size with the "
            "original; a file of some hundred bytes is a Git LFS pointer), or not a safetensors file."
        ) from error
    metadata = header.get("__metadata__", {})
    return tensors, {str(key): str(value) for key, value in metadata.items()} if isinstance(
        metadata, dict
    ) else {}


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write contiguous copies of `tensors`, by name, with `metadata`.

    Raises:
        AsdfError: a tensor's type has no name in the format, or the file cannot be written.
    """
    if sys.byteorder != "little":
        raise AsdfError(
            "safetensors files hold little-endian numbers; this machine writes big-endian ones."
        )
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    place = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise AsdfError(
                f"cannot write {path}: safetensors has no type for the {tensor.dtype} numbers of {name}."
            )
        end = place + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    with atomic_write(path, "wb") as file:
        file.write(_LENGTH.pack(len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)


def _header(length: bytes, size: int, read: Any) -> dict[str, Any]:
    if len(length) < _LENGTH.size:
        raise ValueError("it has no header")
    (announced,) = _LENGTH.unpack(length)
    if announced > min(LARGEST_HEADER, size - _LENGTH.size):
        raise ValueError(
            f"it announces a header of {announced:,} bytes, and has {size:,} bytes in all"
        )
    try:
        header = json.loads(read(announced), object_pairs_hook=_without_repeats)
    except (UnicodeDecodeError, RecursionError, json.JSONDecodeError):
        raise ValueError("its header is not JSON") from None
    if not isinstance(header, dict):
        raise ValueError("its header is not a dictionary")
    return header


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("its header names something twice")
    return found


def _data_bytes(entries: Mapping[str, Any], size: int) -> int:
    """How many bytes the tensors take, each its own, one behind the other."""
    places = []
    for name, entry in entries.items():
        match entry:
            case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
                pass
            case _:
                raise ValueError(f"its entry for {_shown(name)} is not one of a tensor")
        if kind not in _TYPES:
            raise ValueError(
                f"{_shown(name)} holds numbers of the type {_shown(kind)}; known are {', '.join(_TYPES)}"
            )
        if not _possible(shape):
            raise ValueError(f"{_shown(name)} has the shape {_shown(shape)}")
        if not 0 <= begin <= end <= size or end - begin != math.prod(shape) * _TYPES[kind].itemsize:
            raise ValueError(
                f"{_shown(name)} of shape {shape} and type {kind} does not fit its bytes "
                f"{_shown(begin)} to {_shown(end)}"
            )
        places.append((begin, end))
    last = 0
    for begin, end in sorted(places):
        if begin != last:
            raise ValueError(f"its tensors overlap or leave a gap at byte {last} of the data")
        last = end
    return last


def _possible(shape: list[Any]) -> bool:
    """Whether a tensor can have this shape; one without numbers, as [0, 2**62], can be out of bounds as well."""
    if len(shape) > MOST_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        return False
    return math.prod(min(max(n, 1), LARGEST_SHAPE + 1) for n in shape) <= LARGEST_SHAPE


def _shown(value: Any) -> str:
    return shorten(printable(str(value), one_line=True))


def _tensor(entry: Mapping[str, Any], mapped: mmap.mmap, start: int) -> Tensor:
    kind, (begin, end) = _TYPES[entry["dtype"]], entry["data_offsets"]
    if begin == end:
        return torch.empty(entry["shape"], dtype=kind)
    if (start + begin) % kind.itemsize:
        # Files of other writers need not be aligned; a copy is.
        return torch.frombuffer(bytearray(mapped[start + begin : start + end]), dtype=kind).view(
            entry["shape"]
        )
    count = (end - begin) // kind.itemsize
    return torch.frombuffer(mapped, dtype=kind, count=count, offset=start + begin).view(
        entry["shape"]
    )
