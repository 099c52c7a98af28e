"""Files by their paths: ordinary ones, and those in places that extras read.

Invariant: a path means the same bytes to everyone who reads it. Ordinary files are tried first, at
no extra cost; readers of other places (`READERS` of the extras) are asked for what is none.

Parts of recordings as paths: `a.flac#t=1.5,4` is `a.flac` from 1.5 s to 4 s.

Invariant: a part is defined by its path alone, and reading its file as bytes reads the whole file.
Times are decimal numbers of seconds, so that the first and last frames are exact at every sampling
rate: both are rounded half up, the last one as a number of frames from the first.

The syntax is that of the W3C's media fragments (https://www.w3.org/TR/media-frags/, `t=`);
`track=` and `channel=` are our extensions.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES
from asdf.ports import load, provided
from asdf.runs.systems import open_flags
from asdf.text import AnyPath

_TIMES = r"t=(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)"
_TRACK = r"track=([1-9]\d{0,3})"
_CHANNEL = r"channel=(\d{1,4})"
# In this order, with '&' between two.
_PART = re.compile(rf"#(?=[tc])(?:{_TIMES}(?=&|$)&?)?(?:{_TRACK}(?=&|$)&?)?(?:{_CHANNEL})?(?<!&)$")


class Part(NamedTuple):
    """A part of a recording.

    Attributes:
        start, stop: Times in seconds; `stop` is None for the end of the recording.
        channel: Channel, counted from 0; None for all channels.
        track: Sound track of a video or another container, counted from 1; None for the default.
    """

    start: Decimal = Decimal(0)
    stop: Decimal | None = None
    channel: int | None = None
    track: int | None = None

    def first_frame(self, rate: int) -> int:
        """Return the first frame of the part, at a sampling rate in Hz."""
        return _round(self.start * rate)

    def frames(self, rate: int, frames: int) -> int:
        """Return the number of frames of the part in a file of `frames`; 0 beyond its end."""
        first = self.first_frame(rate)
        rest = max(0, frames - first)
        if self.stop is None:
            return rest
        return max(0, min(rest, _round((self.stop - self.start) * rate)))


def _round(frames: Decimal) -> int:
    return int(frames.quantize(Decimal(1), ROUND_HALF_UP))


def split_part(path: AnyPath) -> tuple[str, Part | None]:
    """Return the path of a recording and the requested part; None for all of it.

    Examples:
        >>> split_part("a.flac#t=1.5,4")
        ('a.flac', Part(start=Decimal('1.5'), stop=Decimal('4'), channel=None, track=None))
        >>> split_part("a.flac")
        ('a.flac', None)
    """
    text = os.fspath(path)
    # Nearly all paths are of whole recordings, and this is called a million times.
    if "#" not in text:
        return text, None
    match = _PART.search(text)
    if match is None:
        return text, None
    start, stop, track, channel = match.groups()
    part = Part(track=None if track is None else int(track))
    if channel is not None:
        part = part._replace(channel=int(channel))
    if start is not None:
        part = part._replace(start=Decimal(start), stop=Decimal(stop))
    return text[: match.start()], part


def part_path(path: str, part: Part) -> str:
    """Return the path of a part of the recording `path`.

    Examples:
        >>> part_path("a.flac", Part(Decimal("1.50"), Decimal(4), 1))
        'a.flac#t=1.5,4&channel=1'
    """
    words = []
    if part.stop is not None:
        words.append(f"t={_plain(part.start)},{_plain(part.stop)}")
    if part.track is not None:
        words.append(f"track={part.track}")
    if part.channel is not None:
        words.append(f"channel={part.channel}")
    if words:
        return f"{path}#{'&'.join(words)}"
    return path


def _plain(seconds: Decimal) -> str:
    # Never in the notation 1E+1.
    text = f"{seconds:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_MISSING = (FileNotFoundError, NotADirectoryError)
# Without O_NONBLOCK, opening a pipe waits for a writer, possibly for ever.
_READ = os.O_RDONLY | open_flags("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY")


class FileState(NamedTuple):
    """The size of a file in bytes and its modification time in ns.

    A file in a place of an extra has the time of the place.
    """

    size: int
    changed_ns: int


class Member(ABC):
    """A file in a place that is no folder.

    Attributes:
        reads_others: Whether opening it reads much more than its own bytes.
    """

    reads_others = False

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of bytes."""

    @property
    @abstractmethod
    def state(self) -> FileState:
        """The state of the file, which shows changes without reading it."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """Open the member's bytes, which are read on demand.

        Raises:
            AsdfError: its place has changed since it was opened, or is damaged.
        """


class Place(ABC):
    """Files that lie together, but not in a folder of the file system; names have slashes."""

    @property
    @abstractmethod
    def path(self) -> Path:
        """The path that leads to the place."""

    @abstractmethod
    def find(self, name: str) -> Member | None:
        """Return the file `name`."""

    @abstractmethod
    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of the files below `folder`, relative to it, in order."""

    @abstractmethod
    def is_folder(self, name: str = "") -> bool:
        """Whether there are files below `name`; '' is the place itself."""


class Reader(ABC):
    """A kind of place, found by paths that lead into it; named in `READERS` of the extras.

    Attributes:
        suffixes: Suffixes of the files that are such places.
        folder_suffixes: Those of files that stand for the folder of their name without it.
    """

    suffixes: tuple[str, ...] = ()
    folder_suffixes: tuple[str, ...] = ()

    @abstractmethod
    def open_folder(self, folder: AnyPath) -> Place | None:
        """Return the place that a path of a folder leads to; None if it leads to none.

        Raises:
            AsdfError: the place cannot be read.
        """

    @abstractmethod
    def member(self, path: AnyPath) -> Member | None:
        """Return `path`, which is not an ordinary file, as a file in a place.

        Raises:
            AsdfError: as in `open_folder`.
        """

    @abstractmethod
    def known_member(self, path: AnyPath) -> Member | None:
        """Return `path` as a file in a place that was read before, without any reading."""


@cache
def _readers() -> tuple[Reader, ...]:
    return tuple(load(path)() for path in provided("READERS").values())


def is_container(name: str) -> bool:
    """Whether a file with this name is a place."""
    return any(name.endswith(reader.suffixes) for reader in _readers())


def folder_suffixes() -> tuple[str, ...]:
    """Return the suffixes of files that stand for the folder of their name."""
    return tuple(suffix for reader in _readers() for suffix in reader.folder_suffixes)


def folder_name(name: str) -> str:
    """Return the name of the folder that a file stands for; `name` if it stands for none."""
    for suffix in folder_suffixes():
        name = name.removesuffix(suffix)
    return name


def find_container(folder: AnyPath) -> Place | None:
    """Return the place other than a folder that a path leads to; None if it leads to none.

    Raises:
        AsdfError: the place cannot be read.
    """
    found = (reader.open_folder(folder) for reader in _readers())
    return next((place for place in found if place is not None), None)


def find_member(path: AnyPath) -> Member | None:
    """Return `path`, which is not an ordinary file, as a file in another place.

    Raises:
        AsdfError: as in `find_container`.
    """
    found = (reader.member(path) for reader in _readers())
    return next((member for member in found if member is not None), None)


def _known_member(path: AnyPath) -> Member | None:
    # Readers are imported when a file is first missing; before, they know none.
    for reader in _readers() if _readers.cache_info().currsize else ():
        if (member := reader.known_member(path)) is not None:
            return member
    return None


def open_source(path: AnyPath) -> int | BinaryIO:
    """Open `path` as a descriptor, which the caller closes, or as a file in another place.

    For a part of a recording, the whole file is opened.

    Raises:
        OSError: as in the built-in `open`.
        AsdfError: as in `find_container`; or `path` is a pipe, a device or a socket.
    """
    if "#" in os.fspath(path):
        path, _ = split_part(path)
    member = _known_member(path)
    if member is None:
        # Try an ordinary file before looking for other places.
        try:
            return _open_ordinary(path)
        except _MISSING:
            member = find_member(path)
            if member is None:
                raise
    return member.open()


def open_file(path: AnyPath) -> BinaryIO:
    """Open `path`, an ordinary file or one in another place.

    Raises:
        OSError, AsdfError: as in `open_source`.
    """
    source = open_source(path)
    return os.fdopen(source, "rb") if isinstance(source, int) else source


def _open_ordinary(path: AnyPath) -> int:
    descriptor = os.open(path, _READ)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise AsdfError(not_ordinary(path))


def list_names(folder: Path) -> dict[str, tuple[int, int] | None]:
    """Return the names directly in a folder, or of the files directly in another place.

    Returns:
        The device and inode of each name, None in another place; empty if the folder does not
        exist.

    Raises:
        OSError: as in `os.scandir`, except for a missing folder.
        AsdfError: as in `find_container`.
    """
    with suppress(*_MISSING):
        device = folder.stat().st_dev
        return {entry.name: (device, entry.inode()) for entry in os.scandir(folder)}
    place = find_container(folder)
    names = () if place is None else place.names()
    return dict.fromkeys(name for name in names if "/" not in name)


def near_name(path: AnyPath) -> str:
    """Return a sentence about what stands in place of a missing file; '' if nothing does.

    It is a link without its target, or a name with another suffix, letter case or Unicode form, of
    the file or of a folder above it. The sentence begins with a space.
    """
    missing = Path(split_part(os.fspath(path))[0]).absolute()
    with suppress(OSError, ValueError, AsdfError):
        if "\\" in str(missing) and Path(str(missing).replace("\\", "/")).exists():
            return " It exists with / in place of \\: correct the list."
        while not missing.is_symlink() and not (names := _names_by_stem(missing.parent)):
            missing = missing.parent
        if missing.is_symlink():
            return f" It is a link to {missing.readlink()}, which is missing."
        stem = missing.stem if missing.suffix.lower() in AUDIO_SUFFIXES else missing.name
        near = [name for name in names.get(_folded(stem), ()) if name != missing.name]
        # Sorted, so that a name with the same suffix comes first.
        for name in sorted(near, key=lambda name: _folded(name) != _folded(missing.name)):
            where = f" {missing.parent} has"
            if _folded(name) != _folded(missing.name):
                return f"{where} {name}, which differs in its suffix."
            if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", missing.name):
                return f"{where} {name!a}, which differs in its Unicode form."
            return f"{where} {name}, which differs in letter case."
    return ""


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


# All missing recordings of a list are often in one folder, which may have a million names.
@lru_cache(maxsize=4)
def _names_by_stem(folder: Path) -> dict[str, list[str]]:
    """Return the names in a folder by their folded stems, without suffixes of recordings."""
    names: dict[str, list[str]] = {}
    for name in sorted(list_names(folder)):
        # A Path takes three times as long.
        stem, suffix = os.path.splitext(name)  # noqa: PTH122
        known = _folded(stem if suffix.lower() in AUDIO_SUFFIXES else name)
        names.setdefault(known, []).append(name)
    return names


def not_ordinary(path: AnyPath) -> str:
    """Return the message about a path that is a pipe, a device or a socket."""
    return (
        f"{path} is not an ordinary file, but a pipe, a device or a socket, which is not read. "
        "Put a file in its place, or leave it out."
    )


def file_state(path: AnyPath) -> FileState | None:
    """Return the size and modification time of `path`; None if it does not exist."""
    existing = _state_or_member(path)
    return existing.state if isinstance(existing, Member) else existing


def file_size(path: AnyPath) -> int | None:
    """Return the size of `path` in bytes; None if it does not exist."""
    existing = _state_or_member(path)
    return None if existing is None else existing.size


def _state_or_member(path: AnyPath) -> FileState | Member | None:
    if "#" in os.fspath(path):
        path, _ = split_part(path)
    member = _known_member(path)
    if member is not None:
        return member
    try:
        status = Path(path).stat()
    except _MISSING:
        return find_member(path)
    except OSError:
        return None
    return FileState(status.st_size, status.st_mtime_ns)
