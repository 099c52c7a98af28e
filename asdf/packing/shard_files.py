"""A shard: a tar of recordings, each with its description as JSON.

Invariant: a shard is complete when its files have their final names, after they were written, read
back and compared; its index and the lengths of its recordings are next to it. The same recordings
give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from asdf.archives import index_members, open_file
from asdf.data.packed_lengths import SUFFIX as LENGTHS
from asdf.data.packed_lengths import PackedLength, write_packed_lengths
from asdf.errors import AsdfError
from asdf.packing.encoding import Encoded
from asdf.remote import is_remote, upload_object
from asdf.runs.files import atomic_write

BLOCK = 512
_INDEX = ".index"
_PIECE = 2**20


class Entry(NamedTuple):
    """A recording of a shard.

    Attributes:
        position: Index in the order in which the list is packed.
        name: Name without suffix.
        description: Facts about the recording, as JSON.
    """

    position: int
    name: str
    recording: Encoded
    description: bytes

    @property
    def size(self) -> int:
        """Size in a tar in bytes, including headers."""
        contents = (len(self.recording.content), len(self.description))
        return sum(BLOCK + -(-size // BLOCK) * BLOCK for size in contents)


def describe(facts: Mapping[str, str | int], recording: Encoded) -> bytes:
    """Return the description of a recording as JSON."""
    sizes = {"samples": recording.frames, "sample_rate": recording.rate}
    return json.dumps({**facts, **sizes}).encode()


@dataclass
class _Hashed:
    """A file that digests what is written to it."""

    file: IO[bytes]

    def __post_init__(self) -> None:
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        self.size += len(content)
        return self.file.write(content)

    def tell(self) -> int:
        return self.size


class Written(NamedTuple):
    """A shard that was written and read back.

    Attributes:
        size: Size of the tar, in bytes.
        sha256: Digest of its content.
    """

    size: int
    sha256: str


def write_shard(path: Path, entries: Iterable[Entry]) -> Written:
    """Write a shard with its index and its lengths, and read it back.

    A shard for a store is written to the local disk, and uploaded with its index and lengths.

    Raises:
        AsdfError: it cannot be written, or the content that is read back differs.
    """
    if not is_remote(path):
        return _write_local(path, entries)
    with TemporaryDirectory(prefix="asdf-pack-") as folder:
        local = Path(folder, path.name)
        written = _write_local(local, entries)
        # The tar comes last: when it is visible, the other files exist.
        for suffix in (LENGTHS, _INDEX, ""):
            beside = local.with_name(local.name + suffix)
            if beside.exists():
                upload_object(beside, f"{path}{suffix}")
    _compare(path, written)
    return written


def _write_local(path: Path, entries: Iterable[Entry]) -> Written:
    with atomic_write(path, "wb") as file:
        hashed = _Hashed(file)
        lengths = _write_members(hashed, entries)
    written = Written(hashed.size, hashed.digest.hexdigest())
    _compare(path, written)
    members = index_members(path)
    if members != 2 * len(lengths):
        # Removed: under its final name, it would pass for a whole shard.
        path.unlink()
        raise AsdfError(f"{path}: it has {members} members instead of {2 * len(lengths)}.")
    write_packed_lengths(path, written.size, lengths)
    return written


def _write_members(file: _Hashed, entries: Iterable[Entry]) -> list[PackedLength]:
    lengths = []
    with tarfile.open(
        fileobj=file,  # type: ignore[call-overload]
        mode="w|",
        format=tarfile.GNU_FORMAT,
        encoding="utf-8",
        errors="surrogateescape",
    ) as tar:
        for entry in entries:
            recording = entry.recording
            name = entry.name + recording.suffix
            for member, content in (
                (name, recording.content),
                (f"{entry.name}.json", entry.description),
            ):
                # Without time and owner, so that the same recordings give the same bytes.
                info = tarfile.TarInfo(member)
                info.size = len(content)
                info.mode = 0o444
                tar.addfile(info, io.BytesIO(content))
            size = len(recording.content)
            lengths.append(PackedLength(name, recording.frames, recording.rate, size))
    return lengths


def _compare(path: Path, written: Written) -> None:
    """Compare the content of a shard with the written content.

    Raises:
        AsdfError: they differ.
    """
    digest = hashlib.sha256()
    with open_file(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != written.sha256:
        path.unlink()
        raise AsdfError(
            f"{path}: what was read back is not what was written. The disk or the connection to it "
            "may be damaged: check it, then start the same command again."
        )
