"""The headers of a tar, read one after another without the data between them.

Invariant: what is returned are the bytes that `tar -x` would write: of two members of one name the
later, of a link its target. An archive that does not end as tar ends one is refused whole: its last
members would be missing.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from asdf.archives.open_files import BLOCK, Window
from asdf.archives.store import LocalFile, OpenFile
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.progress import track
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
"""The ends of the names of compressed archives, and the programs that decompress them."""

_MAGIC = {
    b"\x1f\x8b": ".tar.gz",
    b"\xfd7zXZ\0": ".tar.xz",
    b"BZh": ".tar.bz2",
    b"\x28\xb5\x2f\xfd": ".tar.zst",
}
_LONGEST_MAGIC = 8
# A header and what tar writes before it for a long name.
_READ_AHEAD = 4096
# tar fills the last record, of 10 kB unless its user wants another size, with zeros.
_LONGEST_END_MARK = 2**24
# From link to link, as Linux allows.
_MAX_LINKS = 40
_SHOWN = 3


class Location(NamedTuple):
    """Where the bytes of a file lie in the archive. (A tuple: a million of them are held at once.)

    Attributes:
        header: Checksum (CRC-32) of the header block before them.
    """

    offset: int
    size: int
    header: int


@dataclass
class _Contents:
    """What the headers describe.

    Attributes:
        files: Locations by name.
        links: Names of the targets by name.
        left_out: Members that are neither, in words.
    """

    files: dict[bytes, Location] = field(default_factory=dict)
    links: dict[bytes, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, member: tarfile.TarInfo, file: OpenFile) -> None:
        name = _normal(member.name)
        is_of_macos = any(part.startswith(b"._") for part in name.split(b"/"))
        if member.isdir() or is_of_macos:
            return
        # The later of two members of one name is the one that counts.
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
        """Give each link the location of the file that it leads to, if need be by other links."""
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

    Folders are left out, and the `._*` that macOS adds; so are devices and links to what is not in
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
    # tarfile takes anything but a header for the end, so a hole that a copy left would be one too.
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
    """Add all members to `contents`; return the byte at which the last of them ends."""
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
    """Yield the members, each with the byte at which the next one begins."""
    with (
        _open_again(file) as content,
        tarfile.open(
            fileobj=content,
            mode="r:",
            encoding="utf-8",
            errors="surrogateescape",
        ) as archive,
    ):
        while (member := archive.next()) is not None:
            # tarfile would hold all of a million members.
            archive.members = []  # type: ignore[attr-defined]
            yield member, archive.offset


def _open_again(file: OpenFile) -> BinaryIO:
    """Open an archive once more, to read one header after another."""
    if isinstance(file, LocalFile):
        # A handle of its own: readers share theirs with processes forked before.
        return Path(file.path).open("rb", buffering=_READ_AHEAD)
    # In parts of a megabyte, which hold the headers of several recordings.
    return io.BufferedReader(Window(file, 0, file.state.size, before=0), _READ_AHEAD)


def _split_in_hundredths(
    headers: Iterator[tuple[tarfile.TarInfo, int]], size: int
) -> Iterator[list[tuple[tarfile.TarInfo, int]]]:
    """Yield the members of each hundredth of the archive's `size` bytes."""
    part = []
    percents = 0
    for member, end in headers:
        part.append((member, end))
        # A member of more than a hundredth is followed by empty parts, so that there are 100.
        while percents < min(100, 100 * end // size):
            percents += 1
            yield part
            part = []
    yield part


def _normal(name: str) -> bytes:
    """Return `name` as the names of an index are: without './', '//' and a leading '/'."""
    return posixpath.normpath(name).lstrip("/").encode("utf-8", "surrogateescape")


def _refuse_compressed(path: Path, start: bytes) -> None:
    for magic, suffix in _MAGIC.items():
        if start.startswith(magic):
            renamed = path.stem + suffix
            raise AsdfError(
                f"{path} is compressed: a recording cannot be read out of the middle of it. Make "
                f"it a plain tar, which is then read in place: `mv {path.name} {renamed}; "
                f"{COMPRESSED[suffix]} {renamed}`."
            )


def _damaged(path: Path, detail: str) -> str:
    return (
        f"{path} is not a whole tar archive ({detail}). It was likely cut off or damaged by a "
        "copy: copy or download it again."
    )
