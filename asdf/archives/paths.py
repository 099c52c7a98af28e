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
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from asdf.archives.archive import FileState, FolderInArchive, Member
from asdf.archives.headers import COMPRESSED
from asdf.archives.members import (
    KNOWN_FOLDERS,
    is_open,
    known_folder,
    open_archive,
    remember_folder,
)
from asdf.archives.open_files import Window
from asdf.archives.parquet import PARQUET
from asdf.archives.parts import split_part
from asdf.archives.store import RemoteFile, absolute, absolute_name, open_ranges
from asdf.errors import AsdfError
from asdf.remote import (
    address_of,
    as_path,
    can_be_listed,
    is_remote,
    object_state,
    read_start,
)
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
        return _find_in_store(path) if is_remote(path) else _find_archive(path)
    return None


def _find_in_store(path: Path) -> FolderInArchive | None:
    """Look for an archive at an address and its parents, up to the bucket or server."""
    above = [path, *path.parents][: len(path.parts) - 1]
    # A path through a .tar names the archive itself, and each lookup is a request.
    above.sort(key=lambda parent: parent.suffix.lower() not in _SUFFIXES)
    for parent in above:
        inner = "/".join(path.parts[len(parent.parts) :])
        is_named = parent.suffix.lower() in _SUFFIXES
        if is_named and (is_open(parent) or parent.is_file()):
            return FolderInArchive(open_archive(parent), inner)
        if can_be_listed(parent) and parent.is_dir():
            return None
        tar = parent.with_name(parent.name + ".tar")
        if not is_named and len(parent.parts) > 2 and tar.is_file():
            return FolderInArchive(open_archive(tar), inner)
        if parent.name.endswith(tuple(COMPRESSED)):
            _refuse_compressed(parent)
    return None


def _find_archive(path: Path) -> FolderInArchive | None:
    """Look for an archive at `path` and at each parent folder, up to the first that exists."""
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
    address = address_of(path)
    if member is None and address is not None:
        return _open_in_store(address)
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


def _open_in_store(address: str) -> BinaryIO:
    """Open an object: whole with one request, or by ranges if it is large."""
    if any(f"{suffix}/" in address.lower() for suffix in _SUFFIXES):
        member = find_member(address)
        if member is not None:
            return member.open()
    try:
        start = read_start(address, RemoteFile.first_bytes)
    except FileNotFoundError:
        member = find_member(address)
        if member is None:
            raise
        return member.open()
    if len(start) < RemoteFile.first_bytes:
        return BytesIO(start)
    file = open_ranges(as_path(address))
    return cast(BinaryIO, Window(file, 0, file.state.size, before=0))


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
    names: set[str] = set()
    if is_remote(folder):
        names.update(entry.name for entry in folder.iterdir())
    else:
        with suppress(*_MISSING):
            return {entry.name for entry in os.scandir(folder)}
    if names:
        return names
    # Not a folder: the path may lead into a tar, which is a file.
    location = find_folder(folder)
    if location is None:
        return set()
    names.update(location.archive.names(location.name))
    return {name for name in names if "/" not in name}


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
    address = address_of(path)
    if address is not None:
        state = object_state(address)
        if state is None:
            return find_member(address)
        return FileState(*state)
    try:
        status = Path(path).stat()
    except _MISSING:
        return find_member(path)
    except OSError:
        return None
    return FileState(status.st_size, status.st_mtime_ns)
