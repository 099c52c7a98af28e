"""Archives read in place: paths that continue into a tar or parquet file, `LA.tar/flac/a.flac`.

Parquet files are also tables: `open_table` reads their columns.
"""

# ruff: noqa: F401 (names for others)

from asdf.archives.archive import Archive, FileState, FolderInArchive, Member
from asdf.archives.index import index_members
from asdf.archives.parquet import ParquetArchive, ParquetTable, open_table
from asdf.archives.parts import Part, part_path, split_part
from asdf.archives.paths import (
    file_size,
    file_state,
    find_folder,
    find_member,
    list_names,
    not_ordinary,
    open_file,
    open_source,
)
from asdf.archives.shard_names import locate_shard
