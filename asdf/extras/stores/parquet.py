"""Parquet files as archives of recordings, as data sets on a hub are distributed.

Invariant: a member is the audio of one row, byte for byte. Its name is the row's path, or the row's
number if the file has no unique paths; it does not depend on settings.

The footer of the file states where each row group lies, and only the audio column of a group is
read. The most recently read groups stay in memory, up to 64 MB per process but at least one, so
that rows in order are read once. Reading a row out of order costs reading its group, usually 100
recordings.
"""

from __future__ import annotations

import json
import os
import posixpath
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from asdf.errors import AsdfError, UsageError
from asdf.extras.stores.index import Archive, ArchiveState, NameIndex, encode_name, read_state
from asdf.places import FileState, Member
from asdf.runs.systems import call_in_forked_processes

PARQUET = ".parquet"

# Columns that may name a recording; the first one with unique values counts.
NAMES = ("path", "file", "file_name", "filename")
_LATER_NAMES = ("utterance_id", "id")
# Number of row groups, of some hundred recordings each, that stay in memory.
_GROUPS = 2
# Maximum size of a column of a row group in memory. Speech hardly compresses, so a small file that
# claims more does not hold recordings.
_MAX_GROUP = 2**31
_MAX_INFLATED = 2**28
_MAX_RATIO = 20
_SMALLER = "pyarrow.parquet.write_table(table, PATH, row_group_size=100)"
# Key of the column descriptions of the library datasets in a file's metadata.
_DESCRIPTION = b"huggingface"


def parquet_library() -> ModuleType:
    """Return the module pyarrow.parquet.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"parquet files need the package pyarrow ({error}): pip install "
            "'asdf-antispoofing[parquet]'."
        ) from error
    module: ModuleType = pyarrow.parquet
    return module


@dataclass(frozen=True)
class AudioColumn:
    """The column of a table that holds recordings.

    Attributes:
        leaf: Path of its bytes in the schema: `audio.bytes`, or `audio` if it is not a struct.
        path_leaf: Path of the names next to the bytes in the struct; '' if there are none.
    """

    leaf: str
    path_leaf: str = ""

    @property
    def name(self) -> str:
        return self.leaf.split(".")[0]


class ParquetTable:
    """A parquet file as a table, of which only the requested columns are read.

    It is open only while it is being read: a data set may have thousands of such files, and opening
    a file takes far less time than reading a row group.

    Attributes:
        state: State of the file whose footer was read; a changed file raises an error.
        columns: Names of its columns.
        audio: Column of recordings, the one called 'audio' if there are several; None if there is
            none.
    """

    def __init__(self, path: Path) -> None:
        """Open a file.

        Raises:
            AsdfError: it cannot be read, or is not a complete parquet file.
            UsageError: pyarrow is not installed.
        """
        parquet_library()
        self.path = path
        self.state: ArchiveState | None = None
        self._metadata: Any = None
        with self._opened() as file:
            self._metadata = file.metadata
            self.schema: Any = file.schema_arrow
            self.columns: tuple[str, ...] = tuple(self.schema.names)
        self.audio = _find_audio(self.schema)
        groups = range(self._metadata.num_row_groups)
        sizes = [self._metadata.row_group(number).num_rows for number in groups]
        # The first row of each group, and the number of rows.
        self._first_rows = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    @property
    def has_audio(self) -> bool:
        """Whether the footer says that the file holds recordings rather than only their paths."""
        if self.audio is None:
            return False
        for number in range(self._metadata.num_row_groups):
            rows = self._metadata.row_group(number).num_rows
            for column in self._columns_of(number, [self.audio.leaf]):
                statistics = column.statistics
                if statistics is None or statistics.null_count != rows:
                    return True
        return False

    def group_of(self, row: int) -> tuple[int, int]:
        """Return the index of the row group that holds `row`, and the row's index in the group."""
        group = bisect_right(self._first_rows, row) - 1
        return group, row - self._first_rows[group]

    def read(self, columns: Sequence[str]) -> dict[str, list[Any]]:
        """Read whole columns as Python values; a column of a struct is `outer.inner`.

        Raises:
            AsdfError: the file is damaged, missing or replaced, or a column would take too much
                memory.
        """
        for group in range(len(self._first_rows) - 1):
            self._check_size(group, columns)
        values = {}
        with self._opened() as file:
            table = file.read(columns=list(columns), use_threads=False)
            for name in columns:
                outer, _, inner = name.partition(".")
                # Only here it is known whether the values are text.
                column = table.column(outer).to_pylist()
                if inner:
                    column = [None if value is None else value[inner] for value in column]
                values[name] = column
        return values

    def read_audio(self, group: int) -> Any:
        """Read the recordings of a row group, as an array of pyarrow.

        Raises:
            AsdfError: the file is damaged, missing or replaced, or the group would take too much
                memory.
        """
        assert self.audio is not None
        self._check_size(group, [self.audio.leaf])
        with self._opened() as file:
            table = file.read_row_group(group, columns=[self.audio.leaf], use_threads=False)
            column = table.column(0).combine_chunks()
            if "." in self.audio.leaf:
                column = column.field("bytes")
        return column

    def _columns_of(self, group: int, names: Sequence[str]) -> Iterator[Any]:
        """Yield the description of these columns, and of what is in them, in a row group."""
        rows = self._metadata.row_group(group)
        for number in range(rows.num_columns):
            column = rows.column(number)
            path = column.path_in_schema
            if any(path == name or path.startswith(f"{name}.") for name in names):
                yield column

    def _check_size(self, group: int, columns: Sequence[str]) -> None:
        """Raise an AsdfError if columns of a row group would take too much memory."""
        for column in self._columns_of(group, columns):
            size, compressed = column.total_uncompressed_size, column.total_compressed_size
            if size > _MAX_GROUP or size > max(_MAX_INFLATED, _MAX_RATIO * compressed):
                raise AsdfError(
                    f"{self.path}: column {column.path_in_schema} of group of rows {group} states "
                    f"{size:,} bytes, compressed to {compressed:,}, and is not read. If it is from "
                    f"a trusted source, write it again in smaller groups, {_SMALLER}."
                )

    def descriptions(self) -> Mapping[str, Any]:
        """Return the library datasets' descriptions of the columns; empty without any."""
        metadata = self.schema.metadata or {}
        try:
            features = json.loads(metadata[_DESCRIPTION])["info"]["features"]
        except (KeyError, TypeError, ValueError, RecursionError):
            return {}
        return features if isinstance(features, dict) else {}

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the file for the block and turn errors into messages."""
        import pyarrow

        try:
            with pyarrow.OSFile(os.fspath(self.path)) as handle:
                state = read_state(os.fstat(handle.fileno()))
                if self.state not in (None, state):
                    raise AsdfError(
                        f"{self.path} is not the file that was opened: it was likely replaced. "
                        "Start the same command again."
                    )
                self.state = state
                # The footer, which may have megabytes, is read once.
                yield parquet_library().ParquetFile(
                    handle, metadata=self._metadata, pre_buffer=False
                )
        except (FileNotFoundError, PermissionError) as error:
            raise AsdfError(
                f"cannot read {self.path}: {os.strerror(error.errno or 0)}. Check the path and its "
                "permissions."
            ) from None
        except MemoryError:
            raise AsdfError(
                f"{self.path} has a group of rows that does not fit in memory. Write it again in "
                f"smaller ones: {_SMALLER}."
            ) from None
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise AsdfError(
                f"{self.path} is not a whole parquet file ({reason}), but likely cut off or "
                "damaged by a copy: copy or download it again."
            ) from None


def _find_audio(schema: Any) -> AudioColumn | None:
    """Return the column of a schema that holds the bytes of recordings."""
    import pyarrow

    types = pyarrow.types
    columns = []
    for field in schema:
        inner = {}
        if types.is_struct(field.type):
            inner = {part.name: part.type for part in field.type}
        content = inner.get("bytes", field.type)
        if not (types.is_binary(content) or types.is_large_binary(content)):
            continue
        leaf = f"{field.name}.bytes" if inner else field.name
        columns.append(AudioColumn(leaf, f"{field.name}.path" if "path" in inner else ""))
    # Of several, the one called 'audio', else the first.
    return min(columns, key=lambda column: column.name != "audio", default=None)


@dataclass(frozen=True)
class ParquetMember(Member):
    """The recording in a row of a parquet file."""

    # Its whole group of rows is read with it.
    reads_others = True

    archive: ParquetArchive
    row: int

    @property
    def size(self) -> int:
        return len(self.archive.content(self.row))

    @property
    def state(self) -> FileState:
        # The size of a row is known only after reading its group.
        return FileState(self.archive.state.size, self.archive.state.changed_ns)

    def open(self) -> BinaryIO:
        return BytesIO(self.archive.content(self.row))


class ParquetArchive(Archive):
    """A parquet file of recordings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table = ParquetTable(path)
        assert self.table.state is not None  # it has been opened
        self.state = self.table.state
        if self.table.audio is None:
            raise AsdfError(
                f"{path} has no column of recordings (bytes, or a struct with 'bytes'): its "
                f"columns are {', '.join(self.table.columns)}."
            )
        encoded = [encode_name(name) for name in _name_rows(self.table, self.table.audio)]
        order = sorted(range(len(encoded)), key=encoded.__getitem__)
        self._rows = np.array(order, np.int64)
        names = [encoded[row] for row in order]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        self.index = NameIndex(ends, b"".join(names))

    def member(self, position: int) -> ParquetMember:
        return ParquetMember(self, self._rows.item(position))

    def offset(self, position: int) -> int:
        row: int = self._rows.item(position)
        return row

    def row_names(self) -> list[str]:
        """Return the names of the recordings in the order of the rows."""
        names = [""] * len(self._rows)
        for position, row in enumerate(self._rows.tolist()):
            names[row] = self.index.name(position)
        return names

    def content(self, row: int) -> bytes:
        """Return the bytes of a recording.

        Raises:
            AsdfError: the row holds no bytes, or the file has changed or is damaged.
        """
        group, row_in_group = self.table.group_of(row)
        # One thread reads at a time; others that need the same group then find it in memory.
        with _reading:
            content = _group(self, group)[row_in_group].as_py()
        if content is None:
            raise AsdfError(
                f"{self.path}: row {row} holds no recording. Leave it out, or download the data "
                "set with its recordings."
            )
        return bytes(content)


_reading = threading.Lock()


def _replace_lock() -> None:
    """Create a new lock in a forked process: the thread that may hold the old one is gone."""
    global _reading
    _reading = threading.Lock()


call_in_forked_processes(_replace_lock)


@lru_cache(maxsize=_GROUPS)
def _group(archive: ParquetArchive, group: int) -> Any:
    """Return the recordings of a row group, as an array of pyarrow."""
    return archive.table.read_audio(group)


def _name_rows(table: ParquetTable, audio: AudioColumn) -> list[str]:
    """Return a unique name for each row."""
    in_audio = (audio.path_leaf,) if audio.path_leaf else ()
    for column in (*NAMES, *in_audio, *_LATER_NAMES):
        if column not in (*table.columns, *in_audio):
            continue
        values = table.read([column])[column]
        if not all(isinstance(value, str) for value in values):
            continue
        names = [posixpath.normpath(value).lstrip("/") for value in values]
        # A path must not lead out of the archive.
        are_inside = not any(
            name in ("", ".", "..") or name.startswith("../") or "\0" in name for name in names
        )
        if are_inside and len(set(names)) == len(names):
            return names
    return [f"{row:08d}" for row in range(len(table))]
