"""Where recordings lie: files in folders, parts of them, and places that extras read."""

from asdf.places.files import (
    FileState,
    Member,
    Place,
    Reader,
    file_size,
    file_state,
    find_container,
    find_member,
    folder_name,
    folder_suffixes,
    is_container,
    list_names,
    near_name,
    not_ordinary,
    open_file,
    open_source,
)
from asdf.places.parts import Part, part_path, split_part

__all__ = [
    "FileState",
    "Member",
    "Part",
    "Place",
    "Reader",
    "file_size",
    "file_state",
    "find_container",
    "find_member",
    "folder_name",
    "folder_suffixes",
    "is_container",
    "list_names",
    "near_name",
    "not_ordinary",
    "open_file",
    "open_source",
    "part_path",
    "split_part",
]
