"""Tensors of a network file that lie beside it, in the parts that processes have written.

A network that is divided over processes need not be collected to be saved: each process writes what
it holds to a safetensors file in a folder beside the network file, as torch.distributed.checkpoint
lays it out. The network file has all else, empty tensors in their place, and an entry that names
the folder, its files and the tensors.

Invariants: nothing in the files is executed; a file that is missing, of another size or damaged is
an error before a number of it is used. Tensors are read whole or in any other division.
"""

from __future__ import annotations

import copy
import math
import re
import shutil
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from asdf.errors import AsdfError
from asdf.text import and_more, printable, shorten

_FOLDER = re.compile(r"[^/]+\.parts-[0-9]+")
_FILE = re.compile(r"[\w-]+\.safetensors")
_BLOCK = 2**20
_SHOWN = 4

KeyPath = tuple[str | int, ...]
"""Keys that lead to a tensor in the attributes of a `NetworkFile`, the outermost first."""


@dataclass(frozen=True)
class PartFile:
    """A file of one process: its bytes, and their CRC-32."""

    size: int
    checksum: int

    @classmethod
    def measure(cls, path: Path) -> PartFile:
        """Read the file at `path` once.

        Raises:
            OSError: it cannot be read.
        """
        size = 0
        checksum = 0
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                size += len(block)
                checksum = zlib.crc32(block, checksum)
        return cls(size, checksum)


@dataclass(frozen=True)
class StoredParts:
    """Divided tensors in `folder`.

    Attributes:
        files: Files by their names.
        paths: Places of the tensors in the network file.
    """

    folder: Path
    files: Mapping[str, PartFile]
    paths: Sequence[KeyPath]

    @classmethod
    def from_entry(cls, entry: Any, path: Path) -> StoredParts:
        """Return the parts that the `entry` of the network file `path` names.

        Raises:
            AsdfError: the entry is damaged.
        """
        try:
            folder = entry["folder"]
            files = {name: PartFile(*map(int, of_file)) for name, of_file in entry["files"].items()}
            paths = [tuple(keys) for keys in entry["tensors"]]
            is_sound = bool(_FOLDER.fullmatch(folder)) and all(map(_FILE.fullmatch, files))
        except (KeyError, TypeError, ValueError, AttributeError):
            is_sound = False
        if not is_sound:
            raise AsdfError(
                f"{path} does not say where its divided tensors are: it is damaged. Use another "
                "network."
            )
        return cls(path.parent / folder, files, paths)

    def entry(self) -> dict[str, Any]:
        """Return what the network file holds of the parts: plain values."""
        files = {name: [file.size, file.checksum] for name, file in self.files.items()}
        paths = [list(path) for path in self.paths]
        return {"folder": self.folder.name, "files": files, "tensors": paths}

    def outlines(self) -> dict[KeyPath, Tensor]:
        """Return tensors without numbers, in the shapes and types of those that are stored.

        Raises:
            AsdfError: a file is missing, of another size, or no safetensors file; or the files do
                not hold each number of a tensor once.
        """
        for name, known in self.files.items():
            path = self.folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != known.size:
                found = "it is missing" if size is None else f"it has {size:,} bytes"
                raise self._damaged(f"{name}: {found}, and had {known.size:,}")
        stored = self._read_headers()
        outlines = {}
        for place in self.paths:
            key = key_of(place)
            tensor = stored.get(key)
            if tensor is None:
                raise self._damaged(f"they have no {key}")
            numbers = sum(math.prod(chunk.sizes) for chunk in tensor.chunks)
            # Torch takes the size from the rows that are there: a hole would stay uninitialised.
            if numbers != math.prod(tensor.size):
                raise self._damaged(f"they have {numbers:,} numbers of {key}")
            kind = tensor.properties.dtype
            outlines[place] = torch.empty(tensor.size, dtype=kind, device="meta")
        return outlines

    def read_into(self, targets: Mapping[KeyPath, Tensor], rank: int = 0, size: int = 1) -> None:
        """Fill `targets`, each of the shape and type of its outline.

        A target that is divided over processes gets this one's part. Of the files, each of `size`
        processes compares every so many with their checksums.

        Raises:
            AsdfError: a file is damaged.
        """
        for name in sorted(self.files)[rank::size]:
            if PartFile.measure(self.folder / name) != self.files[name]:
                raise self._damaged(f"the checksum of {name} is another one")
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.state_dict_loader import load

        named = {key_of(path): tensor for path, tensor in targets.items()}
        with warnings.catch_warnings():
            # Each process reads for itself, which torch takes for an oversight.
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            reader = HuggingFaceStorageReader(str(self.folder))
            load(named, storage_reader=reader, no_dist=True)

    def whole(self) -> dict[KeyPath, Tensor]:
        """Return all tensors, whole, in the host's memory.

        Raises:
            AsdfError: as of `outlines` and `read_into`.
        """
        tensors = {
            path: torch.empty_like(outline, device="cpu")
            for path, outline in self.outlines().items()
        }
        self.read_into(tensors)
        return tensors

    def _read_headers(self) -> dict[str, Any]:
        """Return what torch reads of each tensor in the files of the folder."""
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

        others = {path.name for path in self.folder.glob("*.safetensors")} - self.files.keys()
        if others:
            raise self._damaged(f"other files are among them: {and_more(sorted(others), _SHOWN)}")
        try:
            stored: dict[str, Any] = (
                HuggingFaceStorageReader(str(self.folder)).read_metadata().state_dict_metadata
            )
        except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
            reason = shorten(printable(str(error), one_line=True))
            raise self._damaged(reason or type(error).__name__) from None
        return stored

    def _damaged(self, fault: str) -> AsdfError:
        return AsdfError(
            f"{self.folder}, the divided tensors of a network, is not as it was written: {fault}. "
            "Copy the folder again together with its network file, or use another network."
        )


def key_of(path: KeyPath) -> str:
    """Return the name of a tensor in the files of its parts."""
    return "/".join(map(str, path))


def take_out(
    content: Any,
    is_taken: Callable[[Tensor], bool],
    taken: dict[KeyPath, Tensor],
    path: KeyPath = (),
) -> Any:
    """Return a copy of dictionaries and lists with an empty tensor for each that `is_taken`.

    Args:
        taken: Dictionary that gets these tensors by their places.
    """
    if isinstance(content, Tensor) and is_taken(content):
        taken[path] = content
        return torch.empty(0, dtype=content.dtype)
    if isinstance(content, dict):
        # A state dict has attributes, which are saved with it.
        copied = copy.copy(content)
        for key, value in content.items():
            copied[key] = take_out(value, is_taken, taken, (*path, key))
        return copied
    if isinstance(content, list | tuple):
        return type(content)(
            take_out(value, is_taken, taken, (*path, index)) for index, value in enumerate(content)
        )
    return content


def put_back(content: Any, tensors: Mapping[KeyPath, Tensor], path: KeyPath = ()) -> Any:
    """Return a copy of dictionaries and lists with `tensors` at their places."""
    if path in tensors:
        return tensors[path]
    if isinstance(content, dict):
        copied = copy.copy(content)
        for key, value in content.items():
            copied[key] = put_back(value, tensors, (*path, key))
        return copied
    if isinstance(content, list | tuple):
        return type(content)(
            put_back(value, tensors, (*path, index)) for index, value in enumerate(content)
        )
    return content


def folders_of(path: Path) -> list[Path]:
    """Return the folders with parts of the network file `path`, older ones among them."""
    return [
        one
        for one in path.parent.glob(f"{escape(path.stem)}.parts-*")
        if _FOLDER.fullmatch(one.name)
    ]


def next_folder(path: Path) -> Path:
    """Return a folder that does not exist, for parts of the network file `path`."""
    numbers = [int(one.name.rpartition("-")[2]) for one in folders_of(path)]
    return path.with_name(f"{path.stem}.parts-{max(numbers, default=0) + 1}")


def remove_with_parts(path: Path) -> None:
    """Remove the network file `path` if it exists, and then its parts.

    Raises:
        OSError: the folder cannot be written.
    """
    path.unlink(missing_ok=True)
    remove_other_parts(path, None)


def remove_other_parts(path: Path, kept: Path | None) -> None:
    """Remove the parts that the network file `path` has left behind, all but `kept`."""
    for folder in folders_of(path):
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)
