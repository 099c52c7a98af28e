"""Files inside an uncompressed tar, under paths that continue into it: `LA.tar/flac/a.flac`.

Invariant: a path means the same bytes whether its folder is unpacked or is `folder.tar`; if both
exist, the folder is used. `corpora/LA/flac/a.flac` is also found in `corpora/LA.tar`, whose members
may or may not begin with `LA/`.

On parallel file systems, hundreds of thousands of small files are slow and exceed quotas, unlike a
single archive. Ordinary files are tried first, at no extra cost; an archive is looked for once per
missing folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from asdf.errors import AsdfError
from asdf.extras.stores.archive import FolderInArchive
from asdf.extras.stores.headers import COMPRESSED
from asdf.extras.stores.members import KNOWN_FOLDERS, known_folder, open_archive, remember_folder
from asdf.extras.stores.parquet import PARQUET
from asdf.extras.stores.store import absolute, absolute_name
from asdf.places import Member, Reader
from asdf.text import AnyPath

# A tar may stand for the folder of its name; a parquet file is named itself.
_SUFFIXES = (".tar", PARQUET)


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


class Archives(Reader):
    """Tars and parquet files, as the core finds them."""

    def open_folder(self, folder: AnyPath) -> FolderInArchive | None:
        return find_folder(folder)

    def member(self, path: AnyPath) -> Member | None:
        return find_member(path)

    def known_member(self, path: AnyPath) -> Member | None:
        return known_member(path)
