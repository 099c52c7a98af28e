"""One run at a time in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asdf.errors import AsdfError
from asdf.runs.layout import Layout


@contextmanager
def owner_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder` while the block runs; it always ends with its process.

    Raises:
        AsdfError: another process holds it, or, with a cause, the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    path = Layout(folder).owner
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire(timeout=0)
    except Timeout:
        raise AsdfError(
            f"another run is using {folder}. Wait for it, stop it, or give this run another "
            "paths.system_folder."
        ) from None
    except OSError as error:
        raise AsdfError(
            f"cannot write in the system folder {folder}: {error.strerror or error}. Choose "
            "another paths.output_folder, free some space, or fix the folder's permissions."
        ) from error
    try:
        yield
    finally:
        # Removed while it is locked, so that nobody can have locked it.
        path.unlink(missing_ok=True)
        lock.release()
