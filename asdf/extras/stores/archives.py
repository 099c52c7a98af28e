"""Recordings inside uncompressed tars and parquet files, under paths that continue into them.

Invariant: a path means the same bytes whether its folder is unpacked or is `folder.tar`; if both
exist, the folder is used. `corpora/LA/flac/a.flac` is also found in `corpora/LA.tar`, whose members
may or may not begin with `LA/`. A changed archive is indexed again; a change during reading raises
an error instead of returning other samples.

On parallel file systems, hundreds of thousands of small files are slow and exceed quotas, unlike a
single archive. Ordinary files are tried first, at no extra cost; an archive is looked for once per
missing folder, and indexed once per process. A spawned process opens the archive for itself.
"""

from __future__ import annotations

import copyreg
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from asdf.extras.stores.index import Archive, FolderInArchive, absolute, read_state
from asdf.extras.stores.parquet import PARQUET, ParquetArchive
from asdf.extras.stores.tars import COMPRESSED, TarArchive, compressed_error, open_tar, unreadable
from asdf.places import Member, Reader
from asdf.text import AnyPath

_archives: dict[Path, Archive] = {}
_folders: dict[str, FolderInArchive] = {}


def open_archive(path: Path) -> Archive:
    """Return the tar or parquet file `path`, opened once per process, or again after a change.

    Raises:
        AsdfError: it is compressed, truncated, damaged, or cannot be read.
        UsageError: it is a parquet file, and pyarrow is not installed.
    """
    path = Path(absolute(path))
    try:
        known = _archives.get(path)
        if known is not None and known.state == read_state(path.stat()):
            return known
        if known is not None:
            _forget(known)
        is_parquet = path.suffix.lower() == PARQUET
        archive = ParquetArchive(path) if is_parquet else TarArchive(path, _forget)
    except OSError as error:
        raise unreadable(path, error) from None
    # Another thread may have opened it meanwhile.
    return _archives.setdefault(path, archive)


def _forget(archive: Archive) -> None:
    """Forget an archive, so that it is opened again when it is next needed."""
    _archives.pop(archive.path, None)
    for path, folder in list(_folders.items()):
        if folder.archive is archive:
            _folders.pop(path, None)
    open_tar.cache_clear()


def _reopening(archive: Archive) -> tuple[Any, ...]:
    """Return how a pickled archive is reopened in another process, once per process."""
    return open_archive, (archive.path,)


copyreg.pickle(TarArchive, _reopening)
copyreg.pickle(ParquetArchive, _reopening)


def find_folder(folder: AnyPath) -> FolderInArchive | None:
    """Return the archive folder that a path leads to; None if it leads into no archive.

    Raises:
        AsdfError: there is a compressed archive, or one that cannot be read.
    """
    with suppress(PermissionError):
        path = Path(absolute(folder))
        for parent in (path, *path.parents):
            # An existing folder is used, even for files that it lacks.
            if parent.is_dir():
                return None
            # A path may name the tar itself, or the folder that it was made from.
            for candidate in (parent, parent.with_name(parent.name + ".tar")):
                if candidate.suffix.lower() in Archives.suffixes and candidate.is_file():
                    inner = "/".join(path.parts[len(parent.parts) :])
                    return FolderInArchive(open_archive(candidate), inner)
            for suffix in COMPRESSED:
                for candidate in (parent, parent.with_name(parent.name + suffix)):
                    if candidate.name.endswith(suffix) and candidate.is_file():
                        raise compressed_error(candidate, candidate)
    return None


def known_member(path: AnyPath) -> Member | None:
    """Return `path` as a file in an already known archive folder, without any reading."""
    if not _folders:
        return None
    folder_path, name = os.path.split(absolute(path))
    folder = _folders.get(folder_path)
    return None if folder is None else folder.find(name)


def find_member(path: AnyPath) -> Member | None:
    """Return `path`, which is not an ordinary file, as a file in an archive.

    Raises:
        AsdfError: as in `find_folder`.
    """
    member = known_member(path)
    if member is not None:
        return member
    folder_path, name = os.path.split(absolute(path))
    folder = find_folder(folder_path)
    if folder is None:
        return None
    # Another thread may have noticed a change of the archive meanwhile.
    if _archives.get(folder.archive.path) is folder.archive:
        _folders[folder_path] = folder
    return folder.find(name)


class Archives(Reader):
    """Tars and parquet files, as the core finds them."""

    suffixes = (".tar", PARQUET)
    # A parquet file is named itself.
    folder_suffixes = (".tar",)

    open_folder = staticmethod(find_folder)
    member = staticmethod(find_member)
    known_member = staticmethod(known_member)
