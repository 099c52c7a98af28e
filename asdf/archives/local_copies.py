"""Local copies of objects of stores, of limited total size, shared by the processes of a node.

Invariant: a copy gets its name only when it is complete. The name holds the version and size of the
object; the file is renamed after the download, once the object's state has been checked again. A
killed download is resumed or restarted and never taken for complete, and a changed object is
another copy. One process downloads, the others wait.

The least recently used copies are removed first, but none that was used in the last seconds: if
more shards are read in turns than the folder holds, the others are read by ranges, so that no shard
is downloaded repeatedly. On Linux and macOS, a process that has a removed copy open can read on.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.remote import ObjectState, address_of, download_object, object_state
from asdf.runs.files import one_at_a_time
from asdf.runs.log import LOG

FOLDER_VARIABLE = "ASDF_CACHE_FOLDER"
SIZE_VARIABLE = "ASDF_CACHE_GB"
DEFAULT_GB = 100.0
GB = 10**9

# A copy used this recently is in use; a download without writes for this long has ended.
_IDLE_S = 30.0
_ABANDONED_S = 600.0
_PART = ".part"
_COPY = re.compile(r"[0-9a-f]{16}\.[0-9a-f]{16}\.([0-9]+)\.")
# Maximum bytes of a name's end in UTF-8; names have at most 255 bytes, with digests and a suffix.
_MAX_NAME_BYTES = 80


def copies_folder() -> Path | None:
    """Return the folder of whole shards; None if shards are read by ranges."""
    # An environment variable, so that workers of any start method see it.
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) if folder else None


@contextmanager
def use_copies(folder: str | None, gigabytes: float) -> Iterator[None]:
    """Keep whole shards in `folder` during the block; None leaves the environment unchanged."""
    if folder is None:
        yield
        return
    before = {name: os.environ.get(name) for name in (FOLDER_VARIABLE, SIZE_VARIABLE)}
    os.environ[FOLDER_VARIABLE] = folder
    os.environ[SIZE_VARIABLE] = repr(gigabytes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def cache_folder() -> Path:
    """Return ASDF's cache folder of this user."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home, "asdf")


def path_beside(output: Path, name: str) -> Path:
    """Return the path, on a disk of this machine, of what stands as `name` next to an output.

    Of an output in a store it is in the cache: locks, and files that grow, need a disk.

    Args:
        name: Name of a file or folder, which has that of the output in it.
    """
    address = address_of(output)
    if address is None:
        return output.resolve().parent / name
    digest = hashlib.sha256(address.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache_folder() / "progress" / f"{digest}{name}"


def local_file(path: Path) -> Path:
    """Return a file that programs can open by name: `path`, or the local copy of an object.

    Raises:
        FileNotFoundError: the object does not exist.
        AsdfError: its store does not answer, or there is no space for the copy.
    """
    address = address_of(path)
    if address is None:
        return path
    state = object_state(address, refresh=True)
    if state is None:
        raise FileNotFoundError(2, "No such object", address)
    copy = local_copy(address, state)
    if copy is None:
        raise AsdfError(
            f"there is no room for {address} ({state.size / GB:.2f} GB) in {_chosen_folder()}. "
            f"Raise {SIZE_VARIABLE}, or set {FOLDER_VARIABLE} to a folder on another disk."
        )
    return copy


def local_copy(address: str, state: ObjectState) -> Path | None:
    """Return the complete copy of an object, downloading it if necessary.

    Returns:
        Path of the copy; None if there is no space for it, which is logged.

    Raises:
        AsdfError: the object has changed meanwhile, or its store does not answer.
    """
    folder = _chosen_folder()
    digest = hashlib.sha256(address.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = end_of_name(address.rpartition("/")[2])
    copy = folder / f"{digest}.{state.version:016x}.{state.size}.{name}"
    if _is_whole(copy, state):
        mark_used(copy)
        return copy
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(copy) as is_alone:
            # Another process may have downloaded it meanwhile.
            if _is_whole(copy, state):
                return copy
            part = copy.with_name(copy.name + (_PART if is_alone else f".{os.getpid()}{_PART}"))
            if not _reserve(folder, part, state.size):
                return None
            _download(address, state, part, copy)
    except OSError as error:
        LOG.warning(
            "%s cannot be cached in %s (%s): it is read by ranges", address, folder, error.strerror
        )
        return None
    return copy


def mark_used(copy: Path) -> None:
    """Mark a copy as in use."""
    # Another process may have removed it.
    with suppress(OSError):
        os.utime(copy)


def end_of_name(name: str) -> str:
    """Return the end of a name, which shows the kind of file, as part of another name."""
    content = name.encode("utf-8", "surrogateescape")
    if len(content) <= _MAX_NAME_BYTES:
        return name
    # Leave out a character that is cut in two.
    return content[-_MAX_NAME_BYTES:].decode("utf-8", "ignore")


def _chosen_folder() -> Path:
    return copies_folder() or cache_folder() / "objects"


def _limit() -> float:
    text = os.environ.get(SIZE_VARIABLE) or str(DEFAULT_GB)
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = -1.0
    # Not `gigabytes <= 0`, which is False for NaN, too.
    if not gigabytes > 0:
        raise UsageError(f"{SIZE_VARIABLE} = {text!r} is not a number of gigabytes.")
    return gigabytes * GB


def _is_whole(copy: Path, state: ObjectState) -> bool:
    try:
        return copy.stat().st_size == state.size
    except OSError:
        return False


def _download(address: str, state: ObjectState, part: Path, copy: Path) -> None:
    """Download the rest of an object, and give the copy its name.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
        AsdfError: the object has changed meanwhile, or its store does not answer.
    """
    start = part.stat().st_size
    LOG.info("downloading %s: %.2f of %.2f GB are there", address, start / GB, state.size / GB)
    started = time.monotonic()
    download_object(address, part, state.size, start)
    if object_state(address, refresh=True) != state or part.stat().st_size != state.size:
        part.unlink(missing_ok=True)
        raise AsdfError(
            f"{address} was changed while it was downloaded. Start the same command again once it "
            "is no longer being written."
        )
    with part.open("rb") as file:
        # Flush to disk before renaming: a power cut leaves a part or the whole.
        os.fsync(file.fileno())
    part.replace(copy)
    LOG.info("downloaded %s in %.1f s", address, time.monotonic() - started)


@dataclass(frozen=True)
class _Stored:
    """A copy, or a part of one, with its final size."""

    path: Path
    size: int
    used: float

    @property
    def is_removable(self) -> bool:
        idle_s = time.time() - self.used
        return idle_s >= (_ABANDONED_S if self.path.suffix == _PART else _IDLE_S)


def _reserve(folder: Path, part: Path, size: int) -> bool:
    """Free space for an object and create its part, which counts as whole; False without space.

    Raises:
        OSError: the folder cannot be read or written.
    """
    limit = _limit()
    with one_at_a_time(folder / "room"):
        stored = []
        for path in folder.iterdir():
            named = _COPY.match(path.name)
            # Another process may remove it meanwhile.
            with suppress(OSError):
                if named is not None and path != part:
                    stored.append(_Stored(path, int(named[1]), path.stat().st_mtime))
        total = sum(each.size for each in stored)
        removable = [each for each in stored if each.is_removable]
        freed = sum(each.size for each in removable)
        if total - freed + size > limit:
            LOG.info(
                "no room for a copy of %.2f GB in %s (%.2f of %.2f GB are in use): read by ranges",
                size / GB,
                folder,
                (total - freed) / GB,
                limit / GB,
            )
            return False
        for each in sorted(removable, key=lambda each: each.used):
            if total + size <= limit:
                break
            each.path.unlink(missing_ok=True)
            total -= each.size
        part.touch()
        return True
