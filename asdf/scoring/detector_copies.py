"""Copies of a detector, by pickle or by `copy`, in this or another process.

Invariant: a copy scores as its original does, to the last bit, or is refused. A pickle holds no
weights: it names the network's file, by its path and its digest, and how the detector was made.
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
    """From what a detector was made.

    Attributes:
        path: Path of the network, absolute.
        state: State of its files when they were read, as of `read_state`.
        options: the other arguments of the detector; plain values.
        networks: Paths of a fused system's networks; their digests are in its file.
    """

    path: Path
    state: FileStates
    options: dict[str, Any]
    networks: tuple[Path, ...] = ()

    def pickled(self) -> Pickled:
        """Return what a pickle holds.

        Raises:
            AsdfError: the network's file is gone or was changed since the detector was made.
        """
        if read_state(self.path, *self.networks) != self.state:
            raise AsdfError(
                f"this detector cannot be copied: {self.path} is gone, or was written again since "
                "it was made. Make another detector of the file that is there."
            )
        return Pickled(str(self.path), digest_of(self.path), self.options)


@dataclass(frozen=True)
class Pickled:
    """What a pickle of a detector holds."""

    path: str
    digest: str
    options: dict[str, Any]


def restore(make: Callable[..., Any], pickled: Pickled) -> Any:
    """Return the detector of a pickle, by `make(path, **options)`.

    Raises:
        AsdfError: there is no such file, or it is not the one that the detector was made of.
    """
    path = Path(pickled.path)
    if not path.exists():
        raise AsdfError(
            f"a copy of a detector needs its network, but there is no {path}. A pickle names the "
            "file and holds no weights: bring the file there, or make the detector from it."
        )
    if digest_of(path) != pickled.digest:
        raise AsdfError(
            f"{path} is not the file that this copy of a detector was made of: it was written "
            "again since. Make the detector from the file."
        )
    return make(pickled.path, **pickled.options)


def copy_with(detector: Any, **options: Any) -> Any:
    """Return a detector of the same file that is made with other `options`.

    Raises:
        AsdfError: the file is gone or was changed since the detector was made.
    """
    _, (make, pickled), *reference = detector.__reduce__()
    copied = restore(make, replace(pickled, options={**pickled.options, **options}))
    if reference:
        copied.__setstate__(*reference)
    return copied


def read_state(*paths: Path) -> FileStates:
    """Return what changes when one of the files, or a file of a folder, is written again."""
    states: FileStates = []
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                status = file.stat()
                name = str(file.relative_to(path))
                states.append((name, status.st_size, status.st_mtime_ns))
    return states
