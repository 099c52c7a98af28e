"""The headers of a tar, read one after another without the data between them.

Invariant: the returned bytes are those that `tar -x` would write: for duplicate names the later
member, for a link its target. An archive without tar's end mark is refused, since its last members
would be missing.
"""

from __future__ import annotations

import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from asdf.errors import AsdfError
from asdf.extras.stores.open_files import BLOCK, OpenFile
from asdf.runs.log import LOG, track
from asdf.text import and_more

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

_MAGIC = {
    b"\x1f\x8b": ".tar.gz",
    b"\xfd7zXZ\0": ".tar.xz",
    b"BZh": ".tar.bz2",
    b"\x28\xb5\x2f\xfd": ".tar.zst",
}
_LONGEST_MAGIC = 8
# A header, and the blocks that tar writes before it for a long name.
_READ_AHEAD = 4096
# tar pads the last record, of 10 kB by default, with zeros.
_LONGEST_END_MARK = 2**24
# The limit of Linux for links to links.
_MAX_LINKS = 40
_SHOWN = 3


class Location(NamedTuple):
    """Where a file's bytes lie in the archive; a tuple, since a million are held at once.

    Attributes:
        header: CRC-32 checksum of the header block before them.
    """

    offset: int
    size: int
    header: int


@dataclass
class _Contents:
    """The contents that the headers describe.

    Attributes:
        files: Locations by name.
        links: Names of the targets by name.
        left_out: Descriptions of members that are neither file nor link.
    """

    files: dict[bytes, Location] = field(default_factory=dict)
    links: dict[bytes, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, member: tarfile.TarInfo, file: OpenFile) -> None:
        name = _normal(member.name)
        is_of_macos = any(part.startswith(b"._") for part in name.split(b"/"))
        if member.isdir() or is_of_macos:
            return
        # Of two members with one name, the later one counts.
        self.files.pop(name, None)
        self.links.pop(name, None)
        if member.isreg():
            header = file.read(BLOCK, member.offset_data - BLOCK)
            self.files[name] = Location(member.offset_data, member.size, zlib.crc32(header))
        elif member.islnk():
            self.links[name] = _normal(member.linkname)
        elif member.issym() and not member.linkname.startswith("/"):
            folder = posixpath.dirname(member.name)
            self.links[name] = _normal(posixpath.join(folder, member.linkname))
        else:
            kind = "a link out of the archive" if member.issym() else "a device or pipe"
            self.left_out.append(f"{member.name} ({kind})")

    def resolve_links(self) -> None:
        """Give each link the location of its target, possibly through other links."""
        resolved = {}
        for name, target in self.links.items():
            for _ in range(_MAX_LINKS):
                if target not in self.links:
                    break
                target = self.links[target]
            if target in self.files:
                resolved[name] = self.files[target]
            else:
                shown_name = name.decode(errors="replace")
                shown_target = target.decode(errors="replace")
                self.left_out.append(f"{shown_name} (a link to {shown_target})")
        self.files.update(resolved)


def scan(path: Path, file: OpenFile) -> dict[bytes, Location]:
    """Locate all files of the open archive, by name (UTF-8, normalised, relative).

    Folders and the `._*` files of macOS are left out; so are devices and links to targets outside
    the archive, with a message.

    Raises:
        AsdfError: the archive is compressed, cut off, damaged or not a tar, or holds sparse files.
    """
    _refuse_compressed(path, file.read(_LONGEST_MAGIC, 0))
    size = file.state.size
    LOG.info("reading the headers of %s (%.1f GB), which is done once", path, size / 1e9)
    contents = _Contents()
    try:
        end = _read_contents(path, file, contents)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise AsdfError(_damaged(path, str(error))) from None
    except OSError as error:
        raise AsdfError(f"{path} cannot be read: {error.strerror or error}.") from None
    # tarfile takes anything but a header for the end, even a hole left by a failed copy.
    mark = file.read(_LONGEST_END_MARK + 1, end)
    if not BLOCK <= len(mark) <= _LONGEST_END_MARK or mark.strip(b"\0"):
        detail = f"of its {size} bytes those from {end} on are neither a member nor the end mark"
        raise AsdfError(_damaged(path, detail))
    contents.resolve_links()
    if contents.left_out:
        left_out = and_more(contents.left_out, _SHOWN, "; ")
        LOG.warning("%s: left out what is not a file: %s", path, left_out)
    return contents.files


def _read_contents(path: Path, file: OpenFile, contents: _Contents) -> int:
    """Add all members to `contents`; return the offset at which the last one ends."""
    end = 0
    percents = _split_in_hundredths(_headers(file), file.state.size)
    what = f"reading the headers of {path.name}"
    for members in track(percents, 100, what, unit="%"):
        for member, end in members:  # noqa: B007 (the last one's end counts)
            if member.issparse():
                raise AsdfError(
                    f"{path} holds {member.name!r} as a sparse file, whose bytes are not all in "
                    "the archive. Make the archive again without tar's option --sparse (-S)."
                )
            contents.add(member, file)
    return end


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


def _split_in_hundredths(
    headers: Iterator[tuple[tarfile.TarInfo, int]], size: int
) -> Iterator[list[tuple[tarfile.TarInfo, int]]]:
    """Yield the members in each hundredth of the archive's `size` bytes."""
    part = []
    percents = 0
    for member, end in headers:
        part.append((member, end))
        # A member larger than a hundredth is followed by empty lists, so that there are 100.
        while percents < min(100, 100 * end // size):
            percents += 1
            yield part
            part = []
    yield part


def _normal(name: str) -> bytes:
    """Return `name` in the form of an index, without './', '//' and a leading '/'."""
    return posixpath.normpath(name).lstrip("/").encode("utf-8", "surrogateescape")


def _refuse_compressed(path: Path, start: bytes) -> None:
    for magic, suffix in _MAGIC.items():
        if start.startswith(magic):
            renamed = path.stem + suffix
            raise AsdfError(
                f"{path} is compressed: a recording cannot be read from the middle of it. "
                f"Decompress it to a plain tar, which is read in place: `mv {path.name} {renamed}; "
                f"{COMPRESSED[suffix]} {renamed}`."
            )


def _damaged(path: Path, detail: str) -> str:
    return (
        f"{path} is not a whole tar archive ({detail}). It was likely cut off or damaged by a "
        "copy: copy or download it again."
    )
