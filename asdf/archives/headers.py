"""The headers of a tar, read one after another without the data between them.

Invariant: what is returned are the bytes that `tar -x` would write: of two members of one name the later, of a link
its target. An archive that does not end as tar ends one is refused whole: its last members would be missing.
"""

from __future__ import annotations

import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.progress import track
from asdf.text import and_more

BLOCK = 512
COMPRESSED = {
    ".tar.gz": "gunzip",
    ".tgz": "gunzip",
    ".tar.xz": "unxz",
    ".txz": "unxz",
    ".tar.bz2": "bunzip2",
    ".tbz2": "bunzip2",
    ".tar.zst": "unzstd",
}
"""What the names of compressed archives end with, and the program that makes a plain tar of one."""

_MAGIC = {
    b"\x1f\x8b": ".tar.gz",
    b"\xfd7zXZ\0": ".tar.xz",
    b"BZh": ".tar.bz2",
    b"\x28\xb5\x2f\xfd": ".tar.zst",
}
_READ_AHEAD = 4096  # a header and what tar writes before it for a long name
_LONGEST_MARK = 2**24  # tar fills the last record, of 10 KB unless told otherwise, with zeros
_MOST_LINKS = 40  # from link to link, as Linux allows
_SHOWN = 3

Place = tuple[int, int, int]


@dataclass
class _Found:
    """What the headers told: files, links (to the names of their targets), and in words what is neither."""

    files: dict[bytes, Place] = field(default_factory=dict)
    links: dict[bytes, bytes] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)

    def add(self, member: tarfile.TarInfo, descriptor: int) -> None:
        name = _normal(member.name)
        if member.isdir() or any(part.startswith(b"._") for part in name.split(b"/")):
            return
        # The later of two members of one name is the one that counts.
        self.files.pop(name, None)
        self.links.pop(name, None)
        if member.isreg():
            header = os.pread(descriptor, BLOCK, member.offset_data - BLOCK)
            self.files[name] = (member.offset_data, member.size, zlib.crc32(header))
        elif member.islnk():
            self.links[name] = _normal(member.linkname)
        elif member.issym() and not member.linkname.startswith("/"):
            self.links[name] = _normal(
                posixpath.join(posixpath.dirname(member.name), member.linkname)
            )
        else:
            self.odd.append(
                f"{member.name} ({'a link out of the archive' if member.issym() else 'a device or pipe'})"
            )

    def resolve(self) -> None:
        """Give each link the place of the file that it leads to, by way of other links or not."""
        found = {}
        for name, target in self.links.items():
            for _ in range(_MOST_LINKS):
                if target not in self.links:
                    break
                target = self.links[target]
            if target in self.files:
                found[name] = self.files[target]
            else:
                self.odd.append(
                    f"{name.decode(errors='replace')} (a link to {target.decode(errors='replace')})"
                )
        self.files.update(found)


def scan(path: Path, descriptor: int) -> dict[bytes, Place]:
    """Name (UTF-8, normalised, relative) -> offset, size and header checksum (CRC-32) of all files in the archive.

    Folders are left out, and the `._*` that macOS adds; so are devices and links to what is not in the archive, with
    a message.

    Raises:
        AsdfError: the archive is compressed, cut off or damaged, is no tar, or holds sparse files.
    """
    _refuse_compressed(path, os.pread(descriptor, 8, 0))
    found, end, size = _Found(), 0, os.fstat(descriptor).st_size
    LOG.info("reading the headers of %s (%.1f GB), which is done once", path, size / 1e9)
    percents = _hundredths(_headers(path), size)
    try:
        for members in track(percents, 100, f"reading the headers of {path.name}", unit="%"):
            for member, end in members:  # noqa: B007 (the last one's end counts)
                if member.issparse():
                    raise AsdfError(
                        f"{path} holds {member.name!r} as a sparse file, which does not lie there byte by byte. "
                        "Make the archive again without tar's option --sparse (-S)."
                    )
                found.add(member, descriptor)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise AsdfError(_damaged(path, str(error))) from None
    except OSError as error:
        raise AsdfError(f"{path} cannot be read: {error.strerror or error}.") from None
    # tarfile takes anything but a header for the end of the archive; so a hole that a copy left would be one too.
    mark = os.pread(descriptor, _LONGEST_MARK + 1, end)
    if not BLOCK <= len(mark) <= _LONGEST_MARK or mark.strip(b"\0"):
        raise AsdfError(
            _damaged(
                path,
                f"of its {size} bytes those from {end} on are neither a member nor the end mark",
            )
        )
    found.resolve()
    if found.odd:
        LOG.warning("%s: left out what is no file: %s", path, and_more(found.odd, _SHOWN, "; "))
    return found.files


def _headers(path: Path) -> Iterator[tuple[tarfile.TarInfo, int]]:
    """The members, each with the byte at which the next one begins."""
    # A handle of its own: readers share theirs with processes forked before.
    with (
        path.open("rb", buffering=_READ_AHEAD) as file,
        tarfile.open(
            fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape"
        ) as archive,
    ):
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined] # it would keep all of a million
            yield member, archive.offset


def _hundredths(
    headers: Iterator[tuple[tarfile.TarInfo, int]], size: int
) -> Iterator[list[tuple[tarfile.TarInfo, int]]]:
    """The members of each hundredth of the archive's `size` bytes."""
    part, percents = [], 0
    for member, end in headers:
        part.append((member, end))
        while percents < min(100, 100 * end // size):
            percents += 1
            yield part
            part = []
    yield part


def _normal(name: str) -> bytes:
    """`name` as the names of an index are: without './', '//' and a leading '/'."""
    return posixpath.normpath(name).lstrip("/").encode("utf-8", "surrogateescape")


def _refuse_compressed(path: Path, start: bytes) -> None:
    for magic, suffix in _MAGIC.items():
        if start.startswith(magic):
            raise AsdfError(
                f"{path} is compressed: one cannot read a recording out of the middle of it. Make it a plain tar, "
                f"which is then read in place: `mv {path.name} {path.stem}{suffix}; "
                f"{COMPRESSED[suffix]} {path.stem}{suffix}`."
            )


def _damaged(path: Path, detail: str) -> str:
    return (
        f"{path} is not a whole tar archive ({detail}). It was likely cut off or damaged by a copy: "
        "copy or download it again."
    )
