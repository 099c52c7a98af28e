"""Files inside an uncompressed tar, under paths that continue into it: `LA.tar/flac/a.flac`.

Invariant: a path means the same bytes whether its folder is unpacked or is `folder.tar`; if both
exist, the folder is used. `corpora/LA/flac/a.flac` is also found in `corpora/LA.tar`, whose members
may or may not begin with `LA/`.

On parallel file systems, hundreds of thousands of small files are slow and exceed quotas, unlike a
single archive. Ordinary files are tried first, at no extra cost; an archive is looked for once per
missing folder.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from asdf.archives.archive import FileState, FolderInArchive, Member
from asdf.archives.headers import COMPRESSED
from asdf.archives.members import (
    KNOWN_FOLDERS,
    known_folder,
    open_archive,
    remember_folder,
)
from asdf.archives.parquet import PARQUET
from asdf.archives.parts import split_part
from asdf.archives.store import absolute, absolute_name
from asdf.errors import AsdfError
from asdf.runs.systems import open_flags
from asdf.text import AnyPath

# A tar may stand for the folder of its name; a parquet file is named itself.
_SUFFIXES = (".tar", PARQUET)
_MISSING = (FileNotFoundError, NotADirectoryError)
# Without O_NONBLOCK, opening a pipe waits for a writer, possibly for ever.
_READ = os.O_RDONLY | open_flags("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY")


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
                if candidate.suffix.lower() in _SUFFIXES and candidate.is_file():
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


def open_source(path: AnyPath) -> int | BinaryIO:
    """Open `path` as a descriptor, which the caller closes, or as a member of an archive.

    For a part of a recording, the whole file is opened.

    Raises:
        OSError: as in the built-in `open`.
        AsdfError: as in `find_folder`; or `path` is a pipe, a device or a socket.
    """
    if "#" in os.fspath(path):
        path, _ = split_part(path)
    member = known_member(path)
    if member is None:
        # Try an ordinary file before looking for archives.
        try:
            return _open_ordinary(path)
        except _MISSING:
            member = find_member(path)
            if member is None:
                raise
    return member.open()


def open_file(path: AnyPath) -> BinaryIO:
    """Open `path`, an ordinary file or a member of an archive.

    Raises:
        OSError, AsdfError: as in `open_source`.
    """
    source = open_source(path)
    return os.fdopen(source, "rb") if isinstance(source, int) else source


def _open_ordinary(path: AnyPath) -> int:
    descriptor = os.open(path, _READ)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise AsdfError(not_ordinary(path))


def list_names(folder: Path) -> set[str]:
    """Return the names directly in a folder, or of the files in an archive folder.

    Returns:
        Names; empty if the folder does not exist.

    Raises:
        OSError: as in `os.scandir`, except for a missing folder.
        AsdfError: as in `find_folder`.
    """
    with suppress(*_MISSING):
        return {entry.name for entry in os.scandir(folder)}
    # Not a folder: the path may lead into a tar, which is a file.
    location = find_folder(folder)
    if location is None:
        return set()
    return {name for name in location.archive.names(location.name) if "/" not in name}


def not_ordinary(path: AnyPath) -> str:
    """Return the message about a path that is a pipe, a device or a socket."""
    return (
        f"{path} is not an ordinary file, but a pipe, a device or a socket, which is not read. "
        "Put a file in its place, or leave it out."
    )


def file_state(path: AnyPath) -> FileState | None:
    """Return the size and modification time of `path`; None if it does not exist."""
    existing = _state_or_member(path)
    return existing.state if isinstance(existing, Member) else existing


def file_size(path: AnyPath) -> int | None:
    """Return the size of `path` in bytes; None if it does not exist."""
    existing = _state_or_member(path)
    return None if existing is None else existing.size


def _state_or_member(path: AnyPath) -> FileState | Member | None:
    if "#" in os.fspath(path):
        path, _ = split_part(path)
    member = known_member(path)
    if member is not None:
        return member
    try:
        status = Path(path).stat()
    except _MISSING:
        return find_member(path)
    except OSError:
        return None
    return FileState(status.st_size, status.st_mtime_ns)
