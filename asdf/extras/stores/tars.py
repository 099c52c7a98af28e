"""Uncompressed tars, and the index of each, by which members are read in place.

Invariant: a member's bytes are those of the indexed archive. An index is used only for the archive
that it was made from, and only unmodified: the archive's size and modification time, and a sample
of its headers, are compared with it when it is opened, a member's own header at each read. An index
that does not match, or is damaged, is made anew.

Building reads only headers, one after another without the data between them, and is done once: the
index is saved next to the archive as `NAME.tar.index` or, if that folder cannot be written, in the
user's cache folder. The indexed bytes are those that `tar -x` would write: for duplicate names the
later member, for a link its target. An archive without tar's end mark is refused, since its last
members would be missing.

A descriptor is closed when its last reader is done, and not before: each reader holds the object
that owns it. The file position is neither used nor moved, so threads and forked processes share a
descriptor.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import posixpath
import tarfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from asdf.errors import AsdfError
from asdf.extras.stores.index import Archive, ArchiveState, NameIndex, absolute, read_state
from asdf.places import FileState, Member
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG, track
from asdf.runs.systems import lock, open_flags, read_at, unlock
from asdf.text import AnyPath, and_more

BLOCK = 512
"""Size of a block of a tar, in bytes."""
_SAMPLE = 64
# Maximum bytes of the end of an archive's name in that of its index, which is limited to 255.
_MAX_NAME_BYTES = 80
# Larger members are read in pieces, of a second of 16-bit samples.
_WHOLE_BYTES = 2**18
_PIECE_BYTES = 2**15
# More would gain little, since opening a file is much faster than decoding a recording.
_OPEN_FILES = 64

COMPRESSED = {
    ".tar.gz": "gunzip",
    ".tgz": "gunzip",
    ".tar.xz": "unxz",
    ".txz": "unxz",
    ".tar.bz2": "bunzip2",
    ".tbz2": "bunzip2",
    ".tar.zst": "unzstd",
}
"""Suffixes of compressed archives, and the programs that decompress them."""

_FIRST_BYTES = {
    b"\x1f\x8b": ".tar.gz",
    b"\xfd7zXZ\0": ".tar.xz",
    b"BZh": ".tar.bz2",
    b"\x28\xb5\x2f\xfd": ".tar.zst",
}
# A header, and the blocks that tar writes before it for a long name.
_READ_AHEAD = 4096
# tar pads the last record, of 10 kB by default, with zeros.
_LONGEST_END_MARK = 2**24
# The limit of Linux for links to links.
_MAX_LINKS = 40
_SHOWN = 3


class OpenFile:
    """A descriptor, which is closed with the last reference to this object.

    Attributes:
        state: State of the archive when it was opened.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | open_flags("O_CLOEXEC"))
        # At the latest when the interpreter ends, while `os` is still usable.
        weakref.finalize(self, os.close, self.descriptor)
        self.state = read_state(os.fstat(self.descriptor))

    def read(self, count: int, position: int) -> bytes:
        """Return up to `count` bytes from `position` on, fewer at the end of the archive."""
        return read_at(self.descriptor, count, position)


class Window(io.RawIOBase):
    """The `size` bytes of an open file from `offset` on, as a file."""

    def __init__(self, file: OpenFile, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        position = bases[whence] + offset
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = position
        return position

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        wanted = max(0, min(len(buffer), self._size - self._position))
        data = self._file.read(wanted, self._offset + self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class Location(NamedTuple):
    """Where a file's bytes lie in the archive; a tuple, since a million are held at once.

    Attributes:
        header: CRC-32 checksum of the header block before them.
    """

    offset: int
    size: int
    header: int


def scan(path: Path, file: OpenFile) -> dict[bytes, Location]:
    """Locate all files of the open archive, by name (UTF-8, normalised, relative).

    Folders and the `._*` files of macOS are left out; so are devices and links to targets outside
    the archive, with a message.

    Raises:
        AsdfError: the archive is compressed, cut off, damaged or not a tar, or holds sparse files.
    """
    start = file.read(max(map(len, _FIRST_BYTES)), 0)
    suffix = next((each for first, each in _FIRST_BYTES.items() if start.startswith(first)), "")
    if suffix:
        raise compressed_error(path, path.with_name(path.stem + suffix))
    size = file.state.size
    LOG.info("reading the headers of %s (%.1f GB), which is done once", path, size / 1e9)
    files: dict[bytes, Location] = {}
    links: dict[bytes, bytes] = {}
    left_out: list[str] = []
    end = 0
    try:
        what = f"reading the headers of {path.name}"
        headers = track(
            _headers(file), size, what, unit="B", size=lambda member: BLOCK + member[0].size
        )
        for member, end in headers:  # noqa: B007 (the last one's end counts)
            if member.issparse():
                raise AsdfError(
                    f"{path} holds {member.name!r} as a sparse file, without all of its bytes. "
                    "Make the archive again without tar's option --sparse (-S)."
                )
            name = _normal(member.name)
            is_of_macos = any(part.startswith(b"._") for part in name.split(b"/"))
            if member.isdir() or is_of_macos:
                continue
            # Of two members with one name, the later one counts.
            files.pop(name, None)
            links.pop(name, None)
            if member.isreg():
                header = file.read(BLOCK, member.offset_data - BLOCK)
                files[name] = Location(member.offset_data, member.size, zlib.crc32(header))
            elif member.islnk():
                links[name] = _normal(member.linkname)
            elif member.issym() and not member.linkname.startswith("/"):
                folder = posixpath.dirname(member.name)
                links[name] = _normal(posixpath.join(folder, member.linkname))
            else:
                kind = "a link out of the archive" if member.issym() else "a device or pipe"
                left_out.append(f"{member.name} ({kind})")
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise _damaged(path, str(error)) from None
    except OSError as error:
        raise AsdfError(f"{path} cannot be read: {error.strerror or error}.") from None
    # tarfile takes anything but a header for the end, even a hole left by a failed copy.
    mark = file.read(_LONGEST_END_MARK + 1, end)
    if not BLOCK <= len(mark) <= _LONGEST_END_MARK or mark.strip(b"\0"):
        detail = f"of its {size} bytes those from {end} on are neither a member nor the end mark"
        raise _damaged(path, detail)
    left_out += _resolve_links(links, files)
    if left_out:
        shown = and_more(left_out, _SHOWN, "; ")
        LOG.warning("%s: left out what is not a file: %s", path, shown)
    return files


def _headers(file: OpenFile) -> Iterator[tuple[tarfile.TarInfo, int]]:
    """Yield the members, each with the offset at which the next one begins."""
    with (
        # A separate handle, since readers share theirs with previously forked processes.
        Path(file.path).open("rb", buffering=_READ_AHEAD) as content,
        tarfile.open(
            fileobj=content, mode="r:", encoding="utf-8", errors="surrogateescape"
        ) as archive,
    ):
        while (member := archive.next()) is not None:
            # tarfile would keep all of a million members in memory.
            archive.members = []  # type: ignore[attr-defined]
            yield member, archive.offset


def _resolve_links(links: dict[bytes, bytes], files: dict[bytes, Location]) -> list[str]:
    """Give each link the location of its target, possibly through other links.

    Returns:
        Descriptions of links without a target.
    """
    left_out = []
    resolved = {}
    for name, target in links.items():
        for _ in range(_MAX_LINKS):
            target = links.get(target, target)
        if target in files:
            resolved[name] = files[target]
        else:
            shown = [part.decode(errors="replace") for part in (name, target)]
            left_out.append("{} (a link to {})".format(*shown))
    files.update(resolved)
    return left_out


def _normal(name: str) -> bytes:
    """Return `name` in the form of an index, without './', '//' and a leading '/'."""
    return posixpath.normpath(name).lstrip("/").encode("utf-8", "surrogateescape")


def compressed_error(path: Path, named: Path) -> AsdfError:
    """Return the refusal of a compressed archive; `named` is its path with the right suffix."""
    program = next(each for suffix, each in COMPRESSED.items() if named.name.endswith(suffix))
    rename = "" if path == named else f"mv {path} {named}; "
    return AsdfError(
        f"{path} is compressed: a recording cannot be read from the middle of it. "
        f"`{rename}{program} {named}` makes a plain tar of it, which is read in place."
    )


def _damaged(path: Path, detail: str) -> AsdfError:
    return AsdfError(
        f"{path} is not a whole tar archive ({detail}), but likely cut off or damaged by a copy: "
        "copy or download it again."
    )


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
            f"the archive {self.path} is not the one that was opened: it was likely replaced. "
            "Start the same command again: the archive is then indexed again."
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
    # One of several processes that open an archive together reads its headers. On file systems
    # without locks, each of them does.
    with suppress(OSError):
        lock(file.descriptor, wait=True)
    try:
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
    finally:
        with suppress(OSError):
            unlock(file.descriptor)
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
    path = Path(absolute(path))
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
