"""Archives of named files, and the index of a tar, by which each member is read in place.

Invariant: a member's bytes are those of the indexed archive, and names are looked up in the same
way in every format. An index is used only for the archive that it was made from, and only
unmodified. It holds a checksum of itself, the archive's size and modification time and a checksum
of every member's header. These are compared with the archive when it is opened, as is a sample of
the headers; a member's own header is compared at each read (`archives.py`). An index that does not
match, or is damaged, is ignored and rebuilt.

Building reads only headers and is done once: the index is saved next to the archive as
`NAME.tar.index` or, if that folder cannot be written, in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError
from asdf.extras.stores.headers import Location, scan
from asdf.extras.stores.open_files import BLOCK, ArchiveState, OpenFile, absolute
from asdf.places import Member, Place
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG
from asdf.runs.systems import lock, unlock

# With the checksum after it, 40 bytes, so that the arrays are aligned.
_MAGIC = b"index of a tar for ASDF, version 3 \n"
_SAMPLE = 64
# Maximum bytes of the end of an archive's name in that of its index, which is limited to 255.
_MAX_NAME_BYTES = 80
# Types of the arrays of an index before its names: offsets, sizes, ends and headers.
_TYPES = tuple(map(np.dtype, ("<i8", "<i8", "<i8", "<u4")))


@dataclass(frozen=True)
class NameIndex:
    """Sorted names of members as one block: a million names take some 50 MB.

    Attributes:
        ends: Offset of each name's end in `names`, int64.
        names: Concatenated names in UTF-8.
    """

    ends: np.ndarray
    names: bytes

    def __len__(self) -> int:
        return len(self.ends)

    def name(self, position: int) -> str:
        return self._name(position).decode("utf-8", "surrogateescape")

    def find(self, name: str) -> int | None:
        """Return the position of the member `name`."""
        wanted = encode_name(name)
        position = self._first_from(wanted)
        if position < len(self) and self._name(position) == wanted:
            return position
        return None

    def below(self, folder: str) -> range:
        """Return the positions of the members below `folder`; '' for all of them."""
        if not folder:
            return range(len(self))
        # '0' is the character after '/'.
        start = self._first_from(encode_name(folder + "/"))
        stop = self._first_from(encode_name(folder + "0"))
        return range(start, stop)

    def all_below(self, folder: str) -> bool:
        """Whether there are members and all of them lie below `folder`."""
        return len(self) > 0 and len(self.below(folder)) == len(self)

    def _first_from(self, name: bytes) -> int:
        """Return the position of the first member whose name is not less than `name`."""
        return bisect_left(range(len(self)), name, key=self._name)

    def _name(self, position: int) -> bytes:
        start = self.ends.item(position - 1) if position else 0
        return self.names[start : self.ends.item(position)]


@dataclass(frozen=True)
class Index(NameIndex):
    """The members of a tar, sorted by name: a million of them take some 80 MB.

    Attributes:
        offsets, sizes: Offset and size of each member's bytes in the archive, int64.
        headers: Checksum of the header block before each member's bytes, uint32.
    """

    offsets: np.ndarray
    sizes: np.ndarray
    headers: np.ndarray

    def location(self, position: int) -> Location:
        return Location(
            self.offsets.item(position), self.sizes.item(position), self.headers.item(position)
        )

    def header_fits(self, position: int, block: bytes) -> bool:
        """Whether `block`, which precedes a member's bytes, is the header that was indexed."""
        checksum: int = self.headers.item(position)
        return zlib.crc32(block) == checksum


def read_index(path: Path, file: OpenFile) -> Index:
    """Return the index of the open archive `path`.

    A saved index is used if it matches; otherwise a new one is built and saved.

    Raises:
        AsdfError: the archive is compressed, cut off, damaged, or holds sparse files.
    """
    saved = _read_fitting(path, file)
    if saved is not None:
        return saved
    with _one_at_a_time(file):
        # Another process may have built it meanwhile.
        saved = _read_fitting(path, file)
        if saved is not None:
            return saved
        index = _build_index(scan(path, file))
        save_index(path, index, file.state)
    LOG.info("indexed %s: %d members", path, len(index))
    return index


def save_index(path: Path, index: Index, state: ArchiveState) -> None:
    """Save the index of the archive `path`, which was in this state when it was indexed."""
    content = _encode(index, state)
    problems = []
    for index_path in _index_paths(path):
        try:
            with atomic_write(index_path, "wb") as file:
                file.write(content)
            return
        except AsdfError as error:
            problems.append(str(error.__cause__ or error))
    LOG.warning(
        "the index of %s cannot be saved (%s): every process reads the archive's headers again. "
        "Set XDG_CACHE_HOME to a folder that you can write to.",
        path,
        "; ".join(problems),
    )


def _build_index(members: dict[bytes, Location]) -> Index:
    names = sorted(members)
    table = np.array([members[name] for name in names], np.int64).reshape(-1, 3)
    return Index(
        offsets=np.ascontiguousarray(table[:, 0]),
        sizes=np.ascontiguousarray(table[:, 1]),
        headers=table[:, 2].astype(np.uint32),
        ends=np.cumsum([len(name) for name in names], dtype=np.int64),
        names=b"".join(names),
    )


def _index_paths(path: Path) -> list[Path]:
    """Return the possible paths of the index of `path`, in the order of the search."""
    # Links are not resolved, since a link may lie in a writable folder.
    path = absolute(path)
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    # The end of the name shows the kind of file; a character that is cut in two is left out.
    end = os.fsencode(path.name)[-_MAX_NAME_BYTES:].decode("utf-8", "ignore")
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    in_cache = Path(cache, "asdf", f"{end}.{digest}.index")
    # lhotse would take an index next to the tars of its shards for another shard.
    number = path.stem.rpartition(".")[2]
    if number.isdecimal() and path.with_name(f"cuts.{number}.jsonl.gz").exists():
        return [in_cache]
    return [path.with_name(f"{path.name}.index"), in_cache]


def _encode(index: Index, state: ArchiveState) -> bytes:
    """Return the file of an index: a checksum, the archive's state, and the arrays."""
    parts = [np.array([state.size, state.changed_ns, len(index)], "<i8").tobytes()]
    columns = (index.offsets, index.sizes, index.ends, index.headers)
    for column, kind in zip(columns, _TYPES, strict=True):
        parts.append(column.astype(kind, copy=False).tobytes())
    content = b"".join([*parts, index.names])
    return _MAGIC + zlib.crc32(content).to_bytes(4, "little") + content


def _decode(content: bytes, state: ArchiveState) -> Index | None:
    """Return the index in a file; None if it is damaged, or of an archive in another state.

    Raises:
        ValueError: its arrays are longer than the file.
    """
    start = len(_MAGIC) + 4
    checksum = zlib.crc32(memoryview(content)[start:]).to_bytes(4, "little")
    if content[:start] != _MAGIC + checksum:
        return None
    size, changed_ns, members = np.frombuffer(content, "<i8", 3, start).tolist()
    if (size, changed_ns) != (state.size, state.changed_ns):
        return None
    position = start + 3 * 8
    arrays = []
    for kind in _TYPES:
        arrays.append(np.frombuffer(content, kind, members, position))
        position += members * kind.itemsize
    offsets, sizes, ends, headers = arrays
    return Index(ends, content[position:], offsets, sizes, headers)


def _read_fitting(path: Path, file: OpenFile) -> Index | None:
    """Return the first saved index that matches the archive."""
    for index_path in _index_paths(path):
        try:
            index = _decode(index_path.read_bytes(), file.state)
        except (OSError, ValueError):
            continue
        if index is not None and _sample_fits(index, file):
            return index
    return None


def _sample_fits(index: Index, file: OpenFile) -> bool:
    """Whether a sample of the headers, including the first and last, matches the archive."""
    if len(index) == 0:
        return True
    if index.offsets.min() < BLOCK:
        return False
    evenly_spaced = np.linspace(0, len(index) - 1, min(_SAMPLE, len(index)))
    sample = np.unique(evenly_spaced.astype(int)).tolist()
    blocks = [file.read(BLOCK, index.offsets.item(position) - BLOCK) for position in sample]
    return all(map(index.header_fits, sample, blocks))


@contextmanager
def _one_at_a_time(file: OpenFile) -> Iterator[None]:
    """Let one of several processes that open an archive together read its headers.

    The lock ends with its process. On file systems without locks, each process reads the headers
    for itself.
    """
    with suppress(OSError):
        lock(file.descriptor, wait=True)
    try:
        yield
    finally:
        with suppress(OSError):
            unlock(file.descriptor)


def encode_name(name: str) -> bytes:
    """Return a name in the form of the index; a file name may hold bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape")


class Archive(ABC):
    """An open archive.

    Attributes:
        root: Name of the folder that contains all members, with a slash; else ''.
        index: Names of the members, sorted.
    """

    path: Path
    state: ArchiveState
    index: NameIndex
    root: str = ""

    @abstractmethod
    def member(self, position: int) -> Member:
        """Return the member at `position` in the index."""

    @abstractmethod
    def offset(self, position: int) -> int:
        """Return a key for the order in which members were written: an offset or a row number."""

    def find(self, name: str) -> Member | None:
        """Return the file `name`, given with or without the archive's root."""
        position = self.index.find(self.root + name)
        # The name may include the root, as tar lists it.
        if position is None and self.root:
            position = self.index.find(name)
        return None if position is None else self.member(position)

    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of the files below `folder`, relative to it, in order."""
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


@dataclass(frozen=True)
class FolderInArchive(Place):
    """A folder `name` in an archive; '' is the archive itself."""

    archive: Archive
    name: str

    @property
    def path(self) -> Path:
        return self.archive.path / self.name

    def find(self, name: str) -> Member | None:
        return self.archive.find(self._inner(name))

    def names(self, folder: str = "") -> Iterator[str]:
        return self.archive.names(self._inner(folder))

    def is_folder(self, name: str = "") -> bool:
        return self.archive.is_folder(self._inner(name))

    def _inner(self, name: str) -> str:
        return f"{self.name}/{name}" if self.name and name else self.name or name
