"""Recordings inside uncompressed tars and parquet files, under paths that continue into them.

Invariant: a path means the same bytes whether its folder is unpacked or is `folder.tar`; if both
exist, the folder is used. `corpora/LA/flac/a.flac` is also found in `corpora/LA.tar`, whose members
may or may not begin with `LA/`. A changed archive is indexed again; a change during reading raises
an error instead of returning other samples.

On parallel file systems, hundreds of thousands of small files are slow and exceed quotas, unlike a
single archive. Ordinary files are tried first, at no extra cost; an archive is looked for once per
missing folder, and indexed once per process. The index stays in memory, the descriptor only while
few others are needed (`open_files.py`). Reading is by offset (`pread`), so threads and forked
processes can share a descriptor, and a spawned process opens the archive for itself.
"""

from __future__ import annotations

import copyreg
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from asdf.errors import AsdfError
from asdf.extras.stores.headers import COMPRESSED
from asdf.extras.stores.index import Archive, FolderInArchive, Index, read_index
from asdf.extras.stores.open_files import (
    OpenFile,
    OpenFiles,
    Window,
    absolute,
    absolute_name,
    read_state,
)
from asdf.extras.stores.parquet import PARQUET, ParquetArchive
from asdf.places import FileState, Member, Reader
from asdf.runs.systems import call_in_forked_processes
from asdf.text import AnyPath


@dataclass(frozen=True)
class TarMember(Member):
    """A file in a tar, at `position` in its index."""

    archive: TarArchive
    position: int

    @property
    def size(self) -> int:
        size: int = self.archive.index.sizes.item(self.position)
        return size

    @property
    def state(self) -> FileState:
        return FileState(self.size, self.archive.state.changed_ns)

    def open(self) -> BinaryIO:
        index = self.archive.index
        location = index.location(self.position)
        file = self.archive.open_file()
        window = Window(file, location.offset, location.size)
        if not index.header_fits(self.position, window.before):
            raise self.archive.replaced()
        # libsndfile reads a file in memory in less time than through a window.
        return cast(BinaryIO, window) if window.whole is None else BytesIO(window.whole)


class TarArchive(Archive):
    """An open uncompressed tar."""

    index: Index

    def __init__(self, path: Path) -> None:
        self.path = path
        file = OpenFile(path)
        self.state = file.state
        self.index = read_index(path, file)
        self.root = f"{path.stem}/" if self.index.all_below(path.stem) else ""
        _files.get(self, lambda: file)

    def member(self, position: int) -> TarMember:
        return TarMember(self, position)

    def offset(self, position: int) -> int:
        offset: int = self.index.offsets.item(position)
        return offset

    def open_file(self) -> OpenFile:
        """Return the open file, which stays open as long as it is referenced.

        Raises:
            AsdfError: the tar is missing, cannot be read, or was replaced.
        """
        return _files.get(self, self._open_again)

    def replaced(self) -> AsdfError:
        """Forget the archive, so that it is indexed again; return the error that reports this."""
        _forget(self)
        return AsdfError(
            f"the archive {self.path} is not the one that was opened: it was likely replaced while "
            "it was being read. Start the same command again: the archive is then indexed again."
        )

    def _open_again(self) -> OpenFile:
        try:
            file = OpenFile(self.path)
        except OSError as error:
            raise _unreadable(self.path, error) from None
        if file.state != self.state:
            raise self.replaced()
        return file


_files = OpenFiles()
# Reentrant, since `open_archive` holds it when it forgets a changed archive.
_lock = threading.RLock()
_archives: dict[Path, Archive] = {}
KNOWN_FOLDERS: dict[str, FolderInArchive] = {}


def _replace_lock() -> None:
    """Create a new lock in a forked process, which lacks the thread that may hold the old one."""
    global _lock
    _lock = threading.RLock()
    _files.replace_lock()


call_in_forked_processes(_replace_lock)


def open_archive(path: Path) -> Archive:
    """Return the tar or parquet file `path`, opened once per process, or again after a change.

    Raises:
        AsdfError: it is compressed, truncated, damaged, or cannot be read.
        UsageError: it is a parquet file, and pyarrow is not installed.
    """
    path = absolute(path)
    with _lock:
        try:
            known = _archives.get(path)
            if known is not None and known.state != read_state(path.stat()):
                _forget(known)
            if path not in _archives:
                is_parquet = path.suffix.lower() == PARQUET
                _archives[path] = ParquetArchive(path) if is_parquet else TarArchive(path)
        except OSError as error:
            raise _unreadable(path, error) from None
        return _archives[path]


def _reopening(archive: Archive) -> tuple[Any, ...]:
    """Return how a pickled archive is reopened in another process, once per process."""
    return open_archive, (archive.path,)


copyreg.pickle(TarArchive, _reopening)
copyreg.pickle(ParquetArchive, _reopening)


def _unreadable(path: Path, error: OSError) -> AsdfError:
    reason = error.strerror or error
    return AsdfError(f"the archive {path} cannot be read: {reason}. Check its permissions.")


def known_folder(path: str) -> FolderInArchive | None:
    """Return the archive folder known for the absolute path `path`, without any reading."""
    return KNOWN_FOLDERS.get(path)


def remember_folder(path: str, folder: FolderInArchive) -> None:
    """Let `known_folder(path)` return this folder until the archive is changed."""
    archive = folder.archive
    with _lock:
        # Another thread may have noticed a change of the archive meanwhile.
        if _archives.get(archive.path) is archive:
            KNOWN_FOLDERS[path] = folder


def _forget(archive: Archive) -> None:
    """Forget an archive, so that it is opened again when it is next needed."""
    with _lock:
        _archives.pop(archive.path, None)
        outdated = [path for path, folder in KNOWN_FOLDERS.items() if folder.archive is archive]
        for path in outdated:
            del KNOWN_FOLDERS[path]
    _files.forget(archive)


def find_folder(folder: AnyPath) -> FolderInArchive | None:
    """Return the archive folder that a path leads to; None if it leads into no archive.

    Raises:
        AsdfError: there is a compressed archive, or one that cannot be read.
    """
    with suppress(PermissionError):
        path = absolute(folder)
        for parent in (path, *path.parents):
            # An existing folder is used, even for files that it lacks.
            if parent.is_dir():
                return None
            inner = "/".join(path.parts[len(parent.parts) :])
            # A path may name the tar itself, or the folder that it was made from.
            for candidate in (parent, parent.with_name(parent.name + ".tar")):
                if candidate.suffix.lower() in Archives.suffixes and candidate.is_file():
                    return FolderInArchive(open_archive(candidate), inner)
            _refuse_compressed(parent)
    return None


def _refuse_compressed(folder: Path) -> None:
    """Raise an AsdfError if `folder` is a compressed archive, or one has its name."""
    for suffix, program in COMPRESSED.items():
        compressed = folder
        if not folder.name.endswith(suffix):
            compressed = folder.with_name(folder.name + suffix)
        if compressed.is_file():
            raise AsdfError(
                f"{compressed} is compressed: a recording cannot be read from the middle of it. "
                f"`{program} {compressed}` makes a plain tar of it, which is read in place."
            )


def known_member(path: AnyPath) -> Member | None:
    """Return `path` as a file in an already known archive folder, without any reading."""
    if not KNOWN_FOLDERS:
        return None
    folder_path, name = os.path.split(absolute_name(path))
    folder = known_folder(folder_path)
    return None if folder is None else folder.find(name)


def find_member(path: AnyPath) -> Member | None:
    """Return `path`, which is not an ordinary file, as a file in an archive.

    Raises:
        AsdfError: as in `find_folder`.
    """
    member = known_member(path)
    if member is not None:
        return member
    folder_path, name = os.path.split(absolute_name(path))
    folder = find_folder(folder_path)
    if folder is None:
        return None
    remember_folder(folder_path, folder)
    return folder.find(name)


class Archives(Reader):
    """Tars and parquet files, as the core finds them."""

    suffixes = (".tar", PARQUET)
    # A parquet file is named itself.
    folder_suffixes = (".tar",)

    open_folder = staticmethod(find_folder)
    member = staticmethod(find_member)
    known_member = staticmethod(known_member)
