"""Tars read in place: paths that go on into an archive, as `corpus.tar/flac/a.flac`."""

from asdf.archives.members import Archive, FolderInArchive, Member
from asdf.archives.paths import (
    FileState,
    file_size,
    file_state,
    find_folder,
    find_member,
    not_ordinary,
    open_file,
    open_source,
)

__all__ = [
    "Archive",
    "FileState",
    "FolderInArchive",
    "Member",
    "file_size",
    "file_state",
    "find_folder",
    "find_member",
    "not_ordinary",
    "open_file",
    "open_source",
]
