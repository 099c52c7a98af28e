"""Where the members of an uncompressed tar lie, so that each is read in place.

Invariant: an index is used only for the archive that it was made from, and as it was written. It holds a checksum of
itself, the archive's size and time of change and a checksum of every member's header: all but the last are held against
the archive when it is opened, as is a sample of the headers, and a member's own header each time that it is read
(`asdf.archives.members`). One that does not fit, or is damaged in any way, is passed over and made anew.

Building reads headers alone, and is done once: the index is kept beside the archive as `NAME.tar.index`, or, where
that folder cannot be written, in the user's cache folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.archives.headers import BLOCK, scan
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG

_MAGIC = b"index of a tar for ASDF, version 2\n"
_FACTS = 5
_SAMPLE = 64
_TYPES = tuple(np.dtype(kind) for kind in ("<i8", "<i8", "<u4", "<i8", "u1"))


@dataclass(frozen=True)
class Index:
    """Members in the order of their names: a million of them are some 80 MB, and are found by bisection.

    Attributes:
        offsets, sizes: of the members' bytes in the archive, int64.
        headers: checksums of the header blocks before these bytes, uint32.
        ends: where each name ends in `names`, int64; `names` is all of them in UTF-8, one after another.
    """

    offsets: np.ndarray
    sizes: np.ndarray
    headers: np.ndarray
    ends: np.ndarray
    names: bytes

    def __len__(self) -> int:
        return len(self.offsets)

    def name(self, place: int) -> str:
        return _text(self._name(place))

    def find(self, name: str) -> int | None:
        """The place of the member `name`."""
        wanted = _bytes(name)
        place = self._first(wanted)
        return place if place < len(self) and self._name(place) == wanted else None

    def below(self, folder: str) -> range:
        """The places of the members of the folder `folder` and below it; '' is all of them."""
        if not folder:
            return range(len(self))
        # '0' is the character after '/'.
        return range(self._first(_bytes(folder + "/")), self._first(_bytes(folder + "0")))

    def all_below(self, folder: str) -> bool:
        """Whether there are members and all of them are in `folder` or below it."""
        return len(self) > 0 and len(self.below(folder)) == len(self)

    def header_fits(self, place: int, block: bytes) -> bool:
        """Whether `block`, which lies before a member's bytes, is the header that was indexed."""
        return zlib.crc32(block) == self.headers.item(place)

    def _first(self, name: bytes) -> int:
        return bisect_left(range(len(self)), name, key=self._name)

    def _name(self, place: int) -> bytes:
        return self.names[self.ends.item(place - 1) if place else 0 : self.ends.item(place)]


def read_index(path: Path, descriptor: int) -> Index:
    """The index of the open archive `path`: the kept one if it fits, else a new one, which is then kept.

    Raises:
        AsdfError: the archive is compressed, cut off, damaged, or holds sparse files.
    """
    kept = _fitting(path, descriptor)
    if kept is not None:
        return kept
    with _one_at_a_time(descriptor):
        kept = _fitting(path, descriptor)  # another process may have made it meanwhile
        if kept is not None:
            return kept
        status = os.fstat(descriptor)
        index = _sorted(scan(path, descriptor))
        _keep(path, index, status)
    LOG.info("indexed %s: %d members", path, len(index))
    return index


def _sorted(members: dict[bytes, tuple[int, int, int]]) -> Index:
    names = sorted(members)
    table = np.array([members[name] for name in names], np.int64).reshape(-1, 3)
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    offsets, sizes = np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])
    return Index(offsets, sizes, table[:, 2].astype(np.uint32), ends, b"".join(names))


def _places(path: Path) -> list[Path]:
    """Where the index of `path` may be kept."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 (a link may lie in a folder that can be written)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return [
        path.with_name(f"{path.name}.index"),
        Path(cache, "asdf", f"{path.name}.{digest}.index"),
    ]


def _keep(path: Path, index: Index, status: os.stat_result) -> None:
    arrays = _arrays(index)
    facts = np.array(_facts(status, arrays), "<i8")
    problems = []
    for place in _places(path):
        try:
            with atomic_write(place, "wb") as file:
                file.write(_MAGIC)
                for array in (facts, *arrays):
                    file.write(array.data)
            return
        except AsdfError as error:
            problems.append(str(error.__cause__ or error))
    LOG.warning(
        "the index of %s cannot be kept (%s): every process reads the archive's headers anew. "
        "Set XDG_CACHE_HOME to a folder that you may write.",
        path,
        "; ".join(problems),
    )


def _arrays(index: Index) -> list[np.ndarray]:
    arrays = [index.offsets, index.sizes, index.headers, index.ends]
    arrays.append(np.frombuffer(index.names, np.uint8))
    return [array.astype(kind, copy=False) for array, kind in zip(arrays, _TYPES, strict=True)]


def _facts(status: os.stat_result, arrays: Sequence[np.ndarray]) -> list[int]:
    """What a kept index states of the archive, and of its own `arrays`."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(array.data, checksum)
    return [status.st_size, status.st_mtime_ns, len(arrays[0]), len(arrays[-1]), checksum]


def _fitting(path: Path, descriptor: int) -> Index | None:
    """The first kept index that fits the archive."""
    status = os.fstat(descriptor)
    for place in _places(path):
        try:
            facts, arrays = _read_arrays(place)
        except (OSError, ValueError):  # ValueError: fewer bytes than its first numbers take
            continue
        if not arrays or facts != _facts(status, arrays):
            continue
        offsets, sizes, headers, ends, names = arrays
        index = Index(offsets, sizes, headers, ends, names.tobytes())
        if _sample_fits(index, descriptor):
            return index
    return None


def _read_arrays(place: Path) -> tuple[list[int], list[np.ndarray]]:
    """What a kept index states, and its arrays; none where the file is not of the size that its numbers ask for."""
    with place.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return [], []
        facts: list[int] = np.frombuffer(file.read(8 * _FACTS), "<i8", _FACTS).tolist()
        *_, members, letters, _ = facts
        counts = [members] * (len(_TYPES) - 1) + [letters]
        sizes = [count * kind.itemsize for count, kind in zip(counts, _TYPES, strict=True)]
        if min(counts) < 0 or file.tell() + sum(sizes) != os.fstat(file.fileno()).st_size:
            return [], []
        return facts, [
            np.frombuffer(file.read(size), kind) for size, kind in zip(sizes, _TYPES, strict=True)
        ]


def _sample_fits(index: Index, descriptor: int) -> bool:
    sample = np.unique(
        np.linspace(0, len(index) - 1, min(_SAMPLE, len(index))).astype(int)
    ).tolist()
    if len(index) and index.offsets.min() < BLOCK:
        return False
    return all(
        index.header_fits(place, os.pread(descriptor, BLOCK, index.offsets.item(place) - BLOCK))
        for place in sample
    )


@contextmanager
def _one_at_a_time(descriptor: int) -> Iterator[None]:
    """Of several processes that open an archive together one reads its headers; the lock goes with its process.

    File systems that know no such locks give an error: then each process does it for itself.
    """
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
