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
    _refuse_compressed(path, file)
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
                    f"{path} holds {member.name!r} as a sparse file, whose bytes are not all in "
                    "the archive. Make the archive again without tar's option --sparse (-S)."
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


def _refuse_compressed(path: Path, file: OpenFile) -> None:
    start = file.read(max(map(len, _FIRST_BYTES)), 0)
    for first, suffix in _FIRST_BYTES.items():
        if start.startswith(first):
            raise compressed_error(path, path.with_name(path.stem + suffix))


def _damaged(path: Path, detail: str) -> AsdfError:
    return AsdfError(
        f"{path} is not a whole tar archive ({detail}). It was likely cut off or damaged by a "
        "copy: copy or download it again."
    )
