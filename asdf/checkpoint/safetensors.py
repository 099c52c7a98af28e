"""Tensors in safetensors files, read by the format's own package.

Invariant: nothing in a file is executed, and sizes in its header are never trusted: the package
checks the header against the file, and the tensors are views of the mapped file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import printable, shorten


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the named tensors of a file, and the texts in its `__metadata__`.

    Changing a tensor in place does not change the file.

    Raises:
        AsdfError: the file does not exist, is damaged or has another format.
    """
    tensors = {}
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 (it is not a dictionary)
                tensors[name] = file.get_tensor(name)
    except OSError as error:
        raise AsdfError(
            f"cannot read weights from {path}: {error.strerror or error}. Check the path."
        ) from error
    # torch refuses shapes that it cannot count, for tensors without values.
    except (SafetensorError, RuntimeError, OverflowError) as error:
        reason = shorten(printable(str(error), one_line=True))
        raise AsdfError(
            f"weights file {path} cannot be read: {reason}. It is damaged or cut short (compare "
            "its size with the original; a file of some hundred bytes is a Git LFS pointer), or "
            "not a safetensors file."
        ) from error
    return tensors, metadata


def write_safetensors(
    path: str | Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
) -> None:
    """Write copies of `tensors`, by name, with `metadata`.

    Raises:
        AsdfError: a tensor's type is not supported by the format, or the file cannot be written.
    """
    copies = {}
    for name, tensor in tensors.items():
        # The package refuses names that share memory, as tied layers do.
        copies[name] = tensor.detach().cpu().contiguous().clone()
    try:
        content = save(copies, dict(metadata))
    except (SafetensorError, KeyError, ValueError) as error:
        raise AsdfError(f"cannot write {path} as safetensors: {error}.") from error
    with atomic_write(path, "wb") as file:
        file.write(content)
