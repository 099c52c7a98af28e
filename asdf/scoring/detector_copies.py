"""Copies of a detector, by pickle or by `copy`, in this or another process.

Invariant: a copy scores as its original does, to the last bit, or is refused. A pickle holds no
weights: it holds the path and digest of the network's file, and the arguments of the detector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import digest_of

FileStates = list[tuple[str, int, int]]


@dataclass(frozen=True)
class Origin:
    """The files and arguments that a detector was made from.

    Attributes:
        path: Path of the network, absolute.
        state: State of its files when they were read, see `read_state`.
        options: Other arguments of the detector, as plain values.
        networks: Paths of a fused system's networks; their digests are in its file.
    """

    path: Path
    state: FileStates
    options: dict[str, Any]
    networks: tuple[Path, ...] = ()

    def pickled(self) -> Pickled:
        """Return the content of a pickle.

        Raises:
            AsdfError: the network's file is gone or was changed since the detector was made.
        """
        if read_state(self.path, *self.networks) != self.state:
            raise AsdfError(
                f"this detector cannot be copied: {self.path} was deleted or rewritten after it "
                "was made. Make another detector from the current file."
            )
        return Pickled(str(self.path), digest_of(self.path), self.options)


@dataclass(frozen=True)
class Pickled:
    """Content of a pickled detector."""

    path: str
    digest: str
    options: dict[str, Any]


def restore(make: Callable[..., Any], pickled: Pickled) -> Any:
    """Return the detector of a pickle, made by `make(path, **options)`.

    Raises:
        AsdfError: the file is missing, or is not the one that the detector was made from.
    """
    path = Path(pickled.path)
    if not path.exists():
        raise AsdfError(
            f"a copy of a detector needs its network, but there is no {path}. A pickle names the "
            "file and holds no weights: copy the file there, or make the detector from it."
        )
    if digest_of(path) != pickled.digest:
        raise AsdfError(
            f"{path} is not the file that this copy of a detector was made from: it was rewritten "
            "later. Make the detector from the file."
        )
    return make(pickled.path, **pickled.options)


def copy_with(detector: Any, **options: Any) -> Any:
    """Return a detector of the same file, made with other `options`.

    Raises:
        AsdfError: the file is gone or was changed since the detector was made.
    """
    _, (make, pickled), *reference = detector.__reduce__()
    copied = restore(make, replace(pickled, options={**pickled.options, **options}))
    if reference:
        copied.__setstate__(*reference)
    return copied


def read_state(*paths: Path) -> FileStates:
    """Return a state that changes if one of the files, or a file in a folder, is rewritten."""
    states: FileStates = []
    for path in paths:
        # Sorted: file systems list names in any order, and states are compared.
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                status = file.stat()
                name = str(file.relative_to(path))
                states.append((name, status.st_size, status.st_mtime_ns))
    return states
