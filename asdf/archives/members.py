"""Open archives and the files in them: each archive is opened once per process.

Invariant: a member's bytes are those of the archive that was indexed. An archive that was changed
is opened anew; one that changes while it is read gives an error, not other samples.

Reading is by offset (`pread`), so threads and forked processes share a descriptor without getting
in each other's way, and a spawned process opens the archive for itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from asdf.archives.index import Index, read_index
from asdf.archives.window import Window
from asdf.errors import AsdfError


@dataclass(frozen=True)
class Member:
    """A file in an archive, at `position` of its index."""

    archive: Archive
    position: int

    @property
    def size(self) -> int:
        size: int = self.archive.index.sizes.item(self.position)
        return size

    def open(self) -> BinaryIO:
        """Open its bytes, which are read as they are needed.

        Raises:
            AsdfError: the archive was changed after it was opened.
        """
        index = self.archive.index
        location = index.location(self.position)
        window = Window(self.archive, self.archive.descriptor, location.offset, location.size)
        if not index.header_fits(self.position, window.before):
            _forget(self.archive)
            raise AsdfError(
                f"the archive {self.archive.path} is not the one that was opened: it was likely "
                "replaced while it was being read. Start the same command again: the archive is "
                "then indexed anew."
            )
        return cast(BinaryIO, window)


class ArchiveState(NamedTuple):
    """What changes when another file takes the archive's name, or it is written to."""

    inode: int
    size: int
    changed_ns: int


class FolderInArchive(NamedTuple):
    """A folder `name` of an archive; '' is the archive itself."""

    archive: Archive
    name: str

    def find(self, file_name: str) -> Member | None:
        """Return the file `file_name` of this folder."""
        if self.name:
            file_name = f"{self.name}/{file_name}"
        return self.archive.find(file_name)


class Archive:
    """An open uncompressed tar.

    Attributes:
        root: the folder's own name and a slash, where all members begin with it; else ''.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.state = _read_state(os.fstat(self.descriptor))
            self.index: Index = read_index(path, self.descriptor)
        except BaseException:
            # `__del__` closes only what has an index.
            self._close()
            raise
        self.root = f"{path.stem}/" if self.index.all_below(path.stem) else ""

    def find(self, name: str) -> Member | None:
        """Return the file `name`, with the archive's root or without it."""
        position = self.index.find(self.root + name)
        # A path may also be spelled as tar lists it, with the root.
        if position is None and self.root:
            position = self.index.find(name)
        return None if position is None else Member(self, position)

    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of the files in `folder` and below it, relative to `folder`, in order."""
        positions = self._below(folder)
        start = f"{self.root}{folder}/" if folder else self.root
        if positions and not self.index.name(positions[0]).startswith(start):
            start = f"{folder}/"
        for position in positions:
            yield self.index.name(position)[len(start) :]

    def is_folder(self, name: str) -> bool:
        return not name or len(self._below(name)) > 0

    def _below(self, folder: str) -> range:
        positions = self.index.below((self.root + folder).rstrip("/"))
        if positions or not self.root:
            return positions
        return self.index.below(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_archive, (self.path,)

    def _close(self) -> None:
        os.close(self.descriptor)

    def __del__(self) -> None:
        # Files that are still being read keep the archive alive.
        if hasattr(self, "index"):
            self._close()


_lock = threading.RLock()
_archives: dict[Path, Archive] = {}
_folders: dict[str, FolderInArchive] = {}


def _replace_lock() -> None:
    """Make a new lock in a forked process: the thread that may hold the old one is not in it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_replace_lock)


def open_archive(path: Path) -> Archive:
    """Return the tar `path`, opened once per process, and again when it was changed.

    Raises:
        AsdfError: it is compressed, cut off, damaged, or cannot be read.
    """
    # Links are not resolved: a link's own name is the corpus's.
    path = Path(os.path.abspath(path))  # noqa: PTH100
    with _lock:
        try:
            known = _archives.get(path)
            if known is not None and known.state != _read_state(path.stat()):
                _forget(known)
            if path not in _archives:
                _archives[path] = Archive(path)
        except OSError as error:
            reason = error.strerror or error
            raise AsdfError(
                f"the archive {path} cannot be read: {reason}. Check its permissions."
            ) from None
        return _archives[path]


def known_folder(path: str) -> FolderInArchive | None:
    """Return the folder of an archive that `path`, absolute, is known to be; without reading."""
    return _folders.get(path)


def any_folder_is_known() -> bool:
    """Whether any path was found to be a folder of an archive."""
    return bool(_folders)


def remember_folder(path: str, folder: FolderInArchive) -> None:
    """Answer `known_folder(path)` from now on, until the archive is changed."""
    archive = folder.archive
    with _lock:
        # Another thread may have seen meanwhile that the archive was changed.
        if _archives.get(archive.path) is archive:
            _folders[path] = folder


def _forget(archive: Archive) -> None:
    """Open the archive anew when it is next needed."""
    with _lock:
        _archives.pop(archive.path, None)
        outdated = [path for path, folder in _folders.items() if folder.archive is archive]
        for path in outdated:
            del _folders[path]


def _read_state(status: os.stat_result) -> ArchiveState:
    return ArchiveState(status.st_ino, status.st_size, status.st_mtime_ns)
