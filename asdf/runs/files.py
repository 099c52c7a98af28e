"""Every output file is whole or absent: written beside its place, flushed to disk, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from asdf.errors import AsdfError


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that takes the place of `path` only when the block ends without an error.

    Whatever was at `path` stays untouched when the block raises, the disk fills up or the process is killed.

    Raises:
        AsdfError: the folder cannot be made or written, or the disk is full.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        # /dev/stdout, a pipe: what cannot be whole or absent must at least not be replaced by a file.
        with _special(path, mode) as file:
            yield file
        return
    path = path.resolve()  # a link stays one
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error
    try:
        # mkstemp makes files private; outputs get the permissions that any new file of the user has.
        os.fchmod(descriptor, 0o666 & ~_umask())
        with _open(descriptor, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def _special(path: Path, mode: str) -> Iterator[IO[Any]]:
    try:
        with _open(os.open(path, os.O_WRONLY), mode) as file:
            yield file
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left half-written in `folder`; only its owner may call this."""
    for path in folder.glob(".*.part"):
        path.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` atomically."""
    with atomic_write(path) as file:
        file.write(text)


def _open(descriptor: int, mode: str) -> IO[Any]:
    if "b" in mode:
        return os.fdopen(descriptor, mode)
    return os.fdopen(descriptor, mode, encoding="utf-8", newline="\n")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_advice(path: Path, error: OSError) -> str:
    """What to tell the user when `path` could not be written."""
    return (
        f"cannot write {path}: {error.strerror or error}. "
        "What was there before is unchanged. Free some space or choose another place (of a run: paths.output_folder), "
        "then start the same command again: a run goes on from the newest checkpoint."
    )
