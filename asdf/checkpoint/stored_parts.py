"""Tensors of a network file that are stored beside it, as shards written by processes.

A sharded network need not be gathered for saving: each process writes its shards to a safetensors
file in a folder beside the network file, in the layout of torch.distributed.checkpoint. The network
file has everything else, empty tensors in place of the sharded ones, and an entry that names the
folder, its files and the tensors.

Invariants: nothing in the files is executed; a file that is missing, damaged or of another size is
an error before any of its values is used. Tensors can be read whole or in any other sharding.
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
"""Keys that lead to a tensor in the attributes of a `NetworkFile`, outermost first."""


@dataclass(frozen=True)
class PartFile:
    """The size of a process's file in bytes, and its CRC-32."""

    size: int
    checksum: int

    @classmethod
    def measure(cls, path: Path) -> PartFile:
        """Return the size and checksum of the file at `path`.

        Raises:
            OSError: the file cannot be read.
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
    """Sharded tensors stored in `folder`.

    Attributes:
        files: Files, by name.
        paths: Paths of the tensors in the network file.
    """

    folder: Path
    files: Mapping[str, PartFile]
    paths: Sequence[KeyPath]

    @classmethod
    def from_entry(cls, entry: Any, path: Path) -> StoredParts:
        """Return the parts that the `entry` of the network file `path` describes.

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
        """Return the entry for the network file, as plain values."""
        files = {name: [file.size, file.checksum] for name, file in self.files.items()}
        paths = [list(path) for path in self.paths]
        return {"folder": self.folder.name, "files": files, "tensors": paths}

    def outlines(self) -> dict[KeyPath, Tensor]:
        """Return tensors without values, with the shapes and types of the stored ones.

        Raises:
            AsdfError: a file is missing, of another size or not a safetensors file, or the files do
                not hold each value of a tensor exactly once.
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
            # torch computes the size from the existing rows, so a gap would stay uninitialised.
            if numbers != math.prod(tensor.size):
                raise self._damaged(f"they have {numbers:,} numbers of {key}")
            kind = tensor.properties.dtype
            outlines[place] = torch.empty(tensor.size, dtype=kind, device="meta")
        return outlines

    def read_into(self, targets: Mapping[KeyPath, Tensor], rank: int = 0, size: int = 1) -> None:
        """Fill `targets`, which have the shapes and types of their outlines.

        A sharded target gets this process's shard. Each of `size` processes verifies the checksums
        of its share of the files.

        Raises:
            AsdfError: a file is damaged.
        """
        for name in sorted(self.files)[rank::size]:
            if PartFile.measure(self.folder / name) != self.files[name]:
                raise self._damaged(f"the checksum of {name} differs")
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.state_dict_loader import load

        named = {key_of(path): tensor for path, tensor in targets.items()}
        with warnings.catch_warnings():
            # Each process reads by itself, which torch warns about.
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            reader = HuggingFaceStorageReader(str(self.folder))
            load(named, storage_reader=reader, no_dist=True)

    def whole(self) -> dict[KeyPath, Tensor]:
        """Return all tensors, unsharded, in host memory.

        Raises:
            AsdfError: as in `outlines` and `read_into`.
        """
        tensors = {
            path: torch.empty_like(outline, device="cpu")
            for path, outline in self.outlines().items()
        }
        self.read_into(tensors)
        return tensors

    def _read_headers(self) -> dict[str, Any]:
        """Return the headers that torch reads for each tensor in the files of the folder."""
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
            f"{self.folder}, the divided tensors of a network, has changed since it was written: "
            f"{fault}. Copy the folder again together with its network file, or use another "
            "network."
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
    """Return a copy of nested dictionaries and lists with empty tensors where `is_taken`.

    Args:
        taken: Dictionary to which these tensors are added by path.
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
    """Return a copy of nested dictionaries and lists with `tensors` at their paths."""
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
    """Return the folders with parts of the network file `path`, including older ones."""
    return [
        one
        for one in path.parent.glob(f"{escape(path.stem)}.parts-*")
        if _FOLDER.fullmatch(one.name)
    ]


def next_folder(path: Path) -> Path:
    """Return a new folder name for parts of the network file `path`."""
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
    """Remove all parts of the network file `path` except `kept`."""
    for folder in folders_of(path):
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)
