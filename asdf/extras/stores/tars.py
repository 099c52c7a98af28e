"""Uncompressed tars, and the index of each, by which members are read in place.

Invariant: a member's bytes are those of the indexed archive. An index is used only for the archive
that it was made from, and only unmodified: the archive's size and modification time, and a sample
of its headers, are compared with it when it is opened, a member's own header at each read. An index
that does not match, or is damaged, is made anew.

Building reads only headers and is done once: the index is saved next to the archive as
`NAME.tar.index` or, if that folder cannot be written, in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from asdf.errors import AsdfError
from asdf.extras.stores.headers import scan
from asdf.extras.stores.index import Archive, NameIndex
from asdf.extras.stores.open_files import BLOCK, ArchiveState, OpenFile, Window, absolute
from asdf.places import FileState, Member
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG
from asdf.runs.systems import lock, unlock

_SAMPLE = 64
# Maximum bytes of the end of an archive's name in that of its index, which is limited to 255.
_MAX_NAME_BYTES = 80
# Larger members are read in pieces, of a second of 16-bit samples.
_WHOLE_BYTES = 2**18
_PIECE_BYTES = 2**15
# More would gain little, since opening a file is much faster than decoding a recording.
_OPEN_FILES = 64


@dataclass(frozen=True)
class Index(NameIndex):
    """The members of a tar, sorted by name: a million of them take some 80 MB.

    Attributes:
        offsets, sizes: Offset and size of each member's bytes in the archive, int64.
        headers: CRC-32 of the header block before each member's bytes, uint32.
    """

    offsets: np.ndarray
    sizes: np.ndarray
    headers: np.ndarray

    def header_fits(self, position: int, block: bytes) -> bool:
        """Whether `block`, which precedes a member's bytes, is the header that was indexed."""
        checksum: int = self.headers.item(position)
        return zlib.crc32(block) == checksum

    def fits(self, file: OpenFile) -> bool:
        """Whether a sample of the headers, including the first and last, is the archive's."""
        evenly_spaced = np.linspace(0, len(self) - 1, min(_SAMPLE, len(self)))
        for position in np.unique(evenly_spaced.astype(int)).tolist():
            start = self.offsets.item(position) - BLOCK
            if start < 0 or not self.header_fits(position, file.read(BLOCK, start)):
                return False
        return True


class TarArchive(Archive):
    """An uncompressed tar; `forget` lets it be opened again after a change."""

    index: Index

    def __init__(self, path: Path, forget: Callable[[Archive], None]) -> None:
        self.path = path
        self._forget = forget
        file = OpenFile(path)
        self.state = file.state
        self.index = read_index(path, file)
        self.root = f"{path.stem}/" if self.index.all_below(path.stem) else ""

    def member(self, position: int) -> TarMember:
        return TarMember(self, position)

    def offset(self, position: int) -> int:
        offset: int = self.index.offsets.item(position)
        return offset

    def replaced(self) -> AsdfError:
        """Forget the archive, so that it is indexed again; return the error that reports this."""
        self._forget(self)
        return AsdfError(
            f"the archive {self.path} is not the one that was opened: it was likely replaced while "
            "it was being read. Start the same command again: the archive is then indexed again."
        )


@lru_cache(maxsize=_OPEN_FILES)
def open_tar(archive: TarArchive) -> OpenFile:
    """Return the open file of a tar, which stays open as long as it is referenced.

    Raises:
        AsdfError: the tar is missing, cannot be read, or was replaced.
    """
    try:
        file = OpenFile(archive.path)
    except OSError as error:
        raise unreadable(archive.path, error) from None
    if file.state != archive.state:
        raise archive.replaced()
    return file


def unreadable(path: Path, error: OSError) -> AsdfError:
    """Return the message for an archive that the system does not open."""
    reason = error.strerror or error
    return AsdfError(f"the archive {path} cannot be read: {reason}. Check its permissions.")


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
        offset, size = self.archive.offset(self.position), self.size
        file = open_tar(self.archive)
        # libsndfile reads a file in memory in less time than through a window.
        is_short = size <= _WHOLE_BYTES
        content = file.read(BLOCK + size if is_short else BLOCK, offset - BLOCK)
        if not index.header_fits(self.position, content[:BLOCK]):
            raise self.archive.replaced()
        if is_short and len(content) == BLOCK + size:
            return io.BytesIO(content[BLOCK:])
        return cast(BinaryIO, io.BufferedReader(Window(file, offset, size), _PIECE_BYTES))


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
        members = scan(path, file)
        names = sorted(members)
        table = np.array([members[name] for name in names], np.int64).reshape(-1, 3)
        index = Index(
            ends=np.cumsum([len(name) for name in names], dtype=np.int64),
            names=b"".join(names),
            offsets=table[:, 0].copy(),
            sizes=table[:, 1].copy(),
            headers=table[:, 2].astype(np.uint32),
        )
        save_index(path, index, file.state)
    LOG.info("indexed %s: %d members", path, len(index))
    return index


def save_index(path: Path, index: Index, state: ArchiveState) -> None:
    """Save the index of the archive `path`, which was in this state when it was indexed."""
    arrays = {each.name: getattr(index, each.name) for each in fields(index)}
    arrays["names"] = np.frombuffer(index.names, np.uint8)
    problems = []
    for index_path in _index_paths(path):
        try:
            with atomic_write(index_path, "wb") as file:
                np.savez(file, state=np.array([state.size, state.changed_ns]), **arrays)
            return
        except AsdfError as error:
            problems.append(str(error.__cause__ or error))
    LOG.warning(
        "the index of %s cannot be saved (%s): every process reads the archive's headers again. "
        "Set XDG_CACHE_HOME to a folder that you can write to.",
        path,
        "; ".join(problems),
    )


def _read_fitting(path: Path, file: OpenFile) -> Index | None:
    """Return the first saved index that matches the archive."""
    for index_path in _index_paths(path):
        # A damaged file may fail anywhere; zip's checksums are of all numbers.
        with suppress(Exception), np.load(index_path) as saved:
            arrays = {each.name: saved[each.name] for each in fields(Index)}
            index = Index(**{**arrays, "names": arrays["names"].tobytes()})
            state = (file.state.size, file.state.changed_ns)
            if tuple(saved["state"].tolist()) == state and index.fits(file):
                return index
    return None


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


@contextmanager
def _one_at_a_time(file: OpenFile) -> Iterator[None]:
    """Let one of several processes that open an archive together read its headers.

    On file systems without locks, each process reads the headers for itself.
    """
    with suppress(OSError):
        lock(file.descriptor, wait=True)
    try:
        yield
    finally:
        with suppress(OSError):
            unlock(file.descriptor)
