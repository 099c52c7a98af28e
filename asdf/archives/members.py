"""Files inside an uncompressed tar, under paths that go on into it: `corpora/LA.tar/flac/a.flac`.

Invariant: a path means the same bytes whether its folder lies there unpacked or as `folder.tar`; where both are, the
folder counts. `corpora/LA/flac/a.flac` is found in `corpora/LA.tar` too; members may or may not begin with `LA/`.

On parallel file systems hundreds of thousands of small files are slow and over quota; one archive is not. Ordinary
files are opened first and cost nothing more; an archive is looked for once for each folder that is not there. Reading
is by offset (`pread`), so threads and forked processes share a descriptor without getting in each other's way, and
a spawned process opens the archive for itself.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from asdf.archives.headers import COMPRESSED
from asdf.archives.index import Index, read_index
from asdf.archives.window import Window
from asdf.errors import AsdfError

AnyPath = str | os.PathLike[str]

_NOT_THERE = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class Member:
    """A file in an archive."""

    archive: Archive
    place: int

    @property
    def size(self) -> int:
        return self.archive.index.sizes.item(self.place)

    def open(self) -> BinaryIO:
        """Its bytes, read as they are asked for.

        Raises:
            AsdfError: the archive was changed after it was opened.
        """
        index, descriptor = self.archive.index, self.archive.descriptor
        window = Window(self.archive, descriptor, index.offsets.item(self.place), self.size)
        if not index.header_fits(self.place, window.before):
            _forget(self.archive)
            raise AsdfError(
                f"the archive {self.archive.path} is not the one that was opened: it was likely replaced while it was "
                "being read. Start the same command again: the archive is then indexed anew."
            )
        return cast(BinaryIO, window)


class Archive:
    """An open uncompressed tar; `root` is the folder's own name and a slash where all members begin with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.state = _state(os.fstat(self.descriptor))
            self.index: Index = read_index(path, self.descriptor)
        except BaseException:
            self._close()
            raise
        self.root = f"{path.stem}/" if self.index.all_below(path.stem) else ""

    def find(self, name: str) -> Member | None:
        """The file `name`, with the archive's root or without it."""
        place = self.index.find(self.root + name)
        if place is None and self.root:
            place = self.index.find(name)
        return None if place is None else Member(self, place)

    def names(self, folder: str = "") -> Iterator[str]:
        """Names of the files in `folder` and below it, relative to `folder`, in order."""
        places = self._below(folder)
        start = f"{self.root}{folder}/" if folder else self.root
        if places and not self.index.name(places[0]).startswith(start):
            start = f"{folder}/"
        for place in places:
            yield self.index.name(place)[len(start) :]

    def is_folder(self, name: str) -> bool:
        return not name or len(self._below(name)) > 0

    def _below(self, folder: str) -> range:
        places = self.index.below((self.root + folder).rstrip("/"))
        return places if places or not self.root else self.index.below(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_archive, (self.path,)

    def _close(self) -> None:
        os.close(self.descriptor)

    def __del__(self) -> None:
        # Files that are still being read keep the archive alive.
        if hasattr(self, "index"):
            self._close()


_lock = threading.RLock()
_archives: dict[Path, Archive] = {}
_folders: dict[str, tuple[Archive, str]] = {}


def _in_a_forked_process() -> None:
    """A thread that held the lock is not in the child."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_a_forked_process)


def open_archive(path: Path) -> Archive:
    """The tar `path`, opened once a process, and again when it was changed.

    Raises:
        AsdfError: it is compressed, cut off, damaged, or cannot be read.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 (a link's own name is the corpus's)
    with _lock:
        try:
            known = _archives.get(path)
            if known is not None and known.state != _state(path.stat()):
                _forget(known)
            if path not in _archives:
                _archives[path] = Archive(path)
        except OSError as error:
            raise AsdfError(
                f"the archive {path} cannot be read: {error.strerror or error}. Check its permissions."
            ) from None
        return _archives[path]


def _forget(archive: Archive) -> None:
    """Open it anew when it is asked for again."""
    with _lock:
        _archives.pop(archive.path, None)
        for folder in [folder for folder, (known, _) in _folders.items() if known is archive]:
            del _folders[folder]


def find_folder(folder: AnyPath) -> tuple[Archive, str] | None:
    """The archive that `folder` lies in, and its name there; None where no archive stands on the way to it.

    Raises:
        AsdfError: there is a compressed one, or one that cannot be read.
    """
    with suppress(PermissionError):
        return _search(Path(os.path.abspath(folder)))  # noqa: PTH100
    return None


def _search(path: Path) -> tuple[Archive, str] | None:
    for place in (path, *path.parents):
        if place.is_dir():
            return None
        inner = "/".join(path.parts[len(place.parts) :])
        for candidate in (place, place.with_name(place.name + ".tar")):
            if candidate.suffix.lower() == ".tar" and candidate.is_file():
                return open_archive(candidate), inner
        for suffix, program in COMPRESSED.items():
            compressed = (
                place if place.name.endswith(suffix) else place.with_name(place.name + suffix)
            )
            if compressed.is_file():
                raise AsdfError(
                    f"{compressed} is compressed: one cannot read a recording out of the middle of it. "
                    f"`{program} {compressed}` makes a plain tar of it, which is read in place."
                )
    return None


def known_member(path: AnyPath) -> Member | None:
    """`path` as a file of an archive, if its folder was found in one before; asks no file system."""
    if not _folders:
        return None
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    known = _folders.get(folder)
    return None if known is None else known[0].find(f"{known[1]}/{name}" if known[1] else name)


def find_member(path: AnyPath) -> Member | None:
    """`path`, which is no ordinary file, as a file of an archive.

    Raises:
        AsdfError: as `find_folder`.
    """
    member = known_member(path)
    if member is None:
        folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
        with _lock:
            found = find_folder(folder)
            if found is None:
                return None
            _folders[folder] = found
        member = known_member(path)
    return member


def open_source(path: AnyPath) -> int | BinaryIO:
    """The bytes of `path`: a descriptor of an ordinary file, which the caller closes, or a member of an archive.

    Raises:
        OSError: as the built-in `open`.
        AsdfError: as `find_folder`; or `path` is a pipe, a device or a socket.
    """
    member = known_member(path)
    if member is None:
        try:
            return _open_ordinary(path)
        except _NOT_THERE:
            member = find_member(path)
            if member is None:
                raise
    return member.open()


def open_file(path: AnyPath) -> BinaryIO:
    """The bytes of `path`, an ordinary file or one in an archive.

    Raises:
        OSError, AsdfError: as `open_source`.
    """
    source = open_source(path)
    return os.fdopen(source, "rb") if isinstance(source, int) else source


def _open_ordinary(path: AnyPath) -> int:
    # Without O_NONBLOCK the opening of a pipe waits for someone to write to it, maybe for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise AsdfError(not_ordinary(path))


def not_ordinary(path: AnyPath) -> str:
    """The message on a path that is a pipe, a device or a socket."""
    return (
        f"{path} is no ordinary file, but a pipe, a device or a socket, which is not read. "
        "Put a file in its place, or leave it out."
    )


def file_state(path: AnyPath) -> tuple[int, int] | None:
    """Bytes of `path` and its time of change in ns; None where there is no such file.

    What is in an archive has the archive's time.
    """
    member = known_member(path)
    if member is None:
        try:
            status = Path(path).stat()
            return status.st_size, status.st_mtime_ns
        except _NOT_THERE:
            member = find_member(path)
        except OSError:
            return None
    return None if member is None else (member.size, member.archive.state[2])


def file_size(path: AnyPath) -> int | None:
    """Bytes of `path`, an ordinary file or one in an archive; None where there is no such file."""
    state = file_state(path)
    return None if state is None else state[0]


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
