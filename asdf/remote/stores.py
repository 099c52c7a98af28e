"""Objects of a store, read whole or by ranges, many at once, and written whole.

Invariant: a read returns exactly the requested bytes of the object. A possibly temporary failure (a
network error, 503, a truncated body) is retried a few times with growing pauses; then it is one
`AsdfError` that names the object. Nothing replaces missing bytes. A missing object is None or a
`FileNotFoundError`, never a guess.

fsspec keeps one file system per process, with its connections, and a new one in a forked process.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from asdf.errors import AsdfError, UsageError
from asdf.remote.addresses import EXTRAS, PACKAGES, can_be_listed, scheme_of

Result = TypeVar("Result")

_ATTEMPTS = 5
# Seconds before the second attempt, doubled before each further one.
_FIRST_PAUSE_S = 0.25
# Connections of one process to S3: botocore's default of 10 is below the number of threads.
_CONNECTIONS = 64
# Fields by which stores distinguish versions of an object, the best first.
_VERSIONS = (
    *("ETag", "etag", "e_tag", "content_md5", "md5Hash", "Content-MD5", "generation"),
    *("xet_hash", "blob_id", "LastModified", "last_modified", "Last-Modified", "mtime", "updated"),
    *("modified", "created"),
)
# Exceptions of these packages may come from the network; any other is a bug in this project.
_NETWORK_PACKAGES = (
    *("aiohttp", "botocore", "aiobotocore", "gcsfs", "azure"),
    *("httpx", "httpx2", "fsspec"),
)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")
_BEYOND_END = 416
_TOO_MANY = 429
_TIMEOUT = 408
# Bytes per request when an object is downloaded or read whole.
_PART = 2**24
# Larger than any object.
_ANY_SIZE = 2**62
# Options for reading a file from start to end with one request: given any size, fsspec does not ask
# the server for it first.
_STREAMED = {
    "http": {"block_size": 0, "size": _ANY_SIZE},
    "https": {"block_size": 0, "size": _ANY_SIZE},
    "hf": {"block_size": 0},
}

_random = random.SystemRandom()


class ObjectState(NamedTuple):
    """The state of an object, which changes when it is replaced.

    Attributes:
        size: Size in bytes.
        version: Digest of its ETag, or of its modification time in a store without ETags, 63 bits;
            0 if the server states neither.
    """

    size: int
    version: int


class Range(NamedTuple):
    """`size` bytes of an object from `start` on."""

    address: str
    start: int
    size: int


class BeyondEndError(Exception):
    """A range begins at or after the end of its object."""


def object_state(address: str, refresh: bool = False) -> ObjectState | None:
    """Return the state of an object; None if it does not exist.

    Args:
        refresh: Whether a replaced object must be noticed. Without it, the hub's file system lists
            a folder once, which is enough to find thousands of recordings.

    Raises:
        AsdfError: the store does not answer, or denies access.
        UsageError: the package for this scheme is not installed.
    """
    try:
        info = _attempt(address, lambda: _look_up(address, refresh))
    except FileNotFoundError:
        return None
    return None if info.get("type") == "directory" else _state_of(address, info)


def object_states(address: str) -> dict[str, ObjectState]:
    """Return the states of all objects in a folder and below it, by names relative to it, sorted.

    Raises: as `object_state`.
    """
    if not can_be_listed(address):
        return {}
    found = _attempt(address, lambda: _file_system(address).find(address, detail=True))
    here = address.partition("://")[2].rstrip("/") + "/"
    states = {}
    for path in sorted(found):
        name = str(path).lstrip("/").removeprefix(here)
        states[name] = _state_of(address, found[path])
    return states


def _state_of(address: str, info: Mapping[str, Any]) -> ObjectState:
    """Return the state that a store's facts on an object mean.

    Raises:
        AsdfError: they lack its size.
    """
    if info.get("size") is None:
        raise AsdfError(
            f"the server of {address} does not state its size, without which it cannot be read in "
            "parts. Download it, and name the file."
        )
    facts = (info.get(name) for name in _VERSIONS)
    fact = next((str(fact) for fact in facts if fact), "")
    digest = hashlib.sha256(fact.encode()).digest()[:8]
    # 63 bits, since it is saved as int64, like the modification time of local files.
    version = int.from_bytes(digest, "big") >> 1 if fact else 0
    return ObjectState(int(info["size"]), version)


def is_folder(address: str) -> bool:
    """Whether there are objects below an address. Raises as `object_state`."""
    if not can_be_listed(address):
        # fsspec would download the address as a page of links.
        return False
    try:
        return bool(_attempt(address, lambda: _file_system(address).isdir(address)))
    except FileNotFoundError:
        return False


def list_objects(address: str) -> list[str]:
    """Return the names directly inside a folder; empty if it does not exist.

    Raises: as `object_state`.
    """
    if not can_be_listed(address):
        return []
    try:
        found = _attempt(address, lambda: _file_system(address).ls(address, detail=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
    here = address.partition("://")[2]
    paths = (str(path).rstrip("/") for path in found)
    # Listing a file gives the file itself, and some stores list an empty object for the folder.
    return [path.rpartition("/")[2] for path in paths if path.lstrip("/") != here]


def find_objects(address: str) -> list[str]:
    """Return the names of all objects below a folder, relative to it, sorted.

    Raises: as `object_state`.
    """
    if not can_be_listed(address):
        return []
    found = _attempt(address, lambda: _file_system(address).find(address))
    here = address.partition("://")[2].rstrip("/") + "/"
    return sorted(str(path).lstrip("/").removeprefix(here) for path in found)


def read_whole(address: str, most: int) -> bytes:
    """Return all bytes of an object, at most `most`, with one request.

    Raises:
        FileNotFoundError: the object does not exist.
        AsdfError, UsageError: as `object_state`; or the object is larger.
    """

    def read() -> bytes:
        content = bytearray()
        system = _file_system(address)
        # The size that a server states may be wrong or missing, so the received bytes are counted.
        with system.open(address, "rb", **_STREAMED.get(scheme_of(address), {})) as file:
            while part := file.read(_PART):
                content += part
                if len(content) > most:
                    raise AsdfError(
                        f"{address} has more than {most:,} bytes, too many for a file of its kind. "
                        "Is it the right address?"
                    )
        return bytes(content)

    return _attempt(address, read)


def read_object(address: str, start: int, size: int) -> bytes:
    """Return exactly `size` bytes of an object from `start` on.

    Raises:
        FileNotFoundError: the object does not exist.
        AsdfError, UsageError: as `object_state`; or the object ends earlier.
    """
    try:
        return _attempt(address, lambda: _read_range(Range(address, start, size)))
    except BeyondEndError:
        raise AsdfError(
            f"{address} ends before byte {start + size:,}: it was likely replaced by a shorter one "
            "while it was being read. Start the same command again."
        ) from None


def read_objects(ranges: Sequence[Range]) -> list[bytes]:
    """Return the bytes of many ranges of one store, read concurrently.

    Raises: as `read_object`.
    """
    if not ranges:
        return []
    # Read the first alone: a server that ignores ranges would send whole objects concurrently.
    first, *others = ranges
    contents = [read_object(*first)]
    system = _file_system(first.address)
    addresses = [each.address for each in others]
    starts = [each.start for each in others]
    ends = [each.start + each.size for each in others]
    found = []
    if others:
        exact = _exact(first.address)
        found = system.cat_ranges(addresses, starts, ends, on_error="return", **exact)
    for each, content in zip(others, found, strict=True):
        if isinstance(content, bytes) and len(content) == each.size:
            contents.append(content)
        else:
            # Read it alone, with all attempts.
            contents.append(read_object(*each))
    return contents


def read_start(address: str, size: int) -> bytes:
    """Return the first `size` bytes of an object, or all of a shorter one, with one request.

    Raises: as `read_object`.
    """

    def read() -> bytes:
        content: bytes = _file_system(address).cat_file(
            address, start=0, end=size, **_exact(address)
        )
        return content

    try:
        return _attempt(address, read)
    except BeyondEndError:
        # A store has no range of an empty object.
        return b""


def download_object(address: str, path: Path, size: int, start: int) -> None:
    """Append the bytes of an object from `start` on to the file `path`, in blocks.

    Args:
        size: Size of the whole object in bytes.

    Raises: as `read_object`; an OSError where the file cannot be written.
    """
    with path.open("ab") as file:
        while start < size:
            part = read_object(address, start, min(_PART, size - start))
            file.write(part)
            start += len(part)


def upload_object(path: Path, address: str) -> None:
    """Write a file to a store as one object, which appears whole or not at all.

    Raises:
        AsdfError, UsageError: as `object_state`.
    """
    _attempt(address, lambda: _file_system(address).put_file(str(path), address), "written")


def remove_object(address: str) -> None:
    """Remove an object. Raises as `read_object`."""
    _attempt(address, lambda: _file_system(address).rm_file(address), "removed")


def remove_objects(address: str) -> None:
    """Remove all objects below an address, if there are any. Raises as `object_state`."""
    with suppress(FileNotFoundError):
        _attempt(address, lambda: _file_system(address).rm(address, recursive=True), "removed")


def _read_range(wanted: Range) -> bytes:
    """Read a range once.

    Raises:
        OSError: the wrong number of bytes arrived.
    """
    address, start, size = wanted
    if not size:
        return b""
    system = _file_system(address)
    content: bytes = system.cat_file(address, start=start, end=start + size, **_exact(address))
    if len(content) > size:
        raise AsdfError(
            f"the server of {address} sends the whole file when a part of it is requested, so a "
            "tar cannot be read there in place. Download it, and name the file."
        )
    if len(content) < size:
        raise OSError(f"{len(content):,} of {size:,} bytes from {start:,} on were received")
    return content


def _exact(address: str) -> dict[str, Any]:
    # fsspec's files of the hub would read megabytes ahead and trust the size in a listing.
    return {"cache_type": "none", "size": _ANY_SIZE} if scheme_of(address) == "hf" else {}


def _look_up(address: str, refresh: bool) -> dict[str, Any]:
    """Return the store's metadata of an object."""
    system = _file_system(address)
    known: dict[str, Any] = {}
    if not refresh or scheme_of(address) != "hf":
        known.update(system.info(address))
        return known
    with suppress(FileNotFoundError):
        known.update(system.info(address))
    if not known:
        # The object may have appeared since its folder was listed.
        system.invalidate_cache(address)
    # With `expand_info`, the hub reports the metadata of this file alone, with its version.
    now: dict[str, Any] = system.info(address, refresh=True, expand_info=True)
    if any(known.get(name) != now.get(name) for name in ("size", *_VERSIONS)):
        # Later calls without a refresh should see the same state.
        system.invalidate_cache(address)
    return now


def _file_system(address: str) -> Any:
    """Return fsspec's file system for an address.

    Raises:
        UsageError: fsspec, or the package of this scheme, is not installed.
    """
    scheme = scheme_of(address)
    package = PACKAGES[scheme]
    options: dict[str, Any] = {}
    if scheme != "hf":
        # Notice objects that are replaced meanwhile.
        options["use_listings_cache"] = False
    if scheme == "s3":
        options["config_kwargs"] = {"max_pool_connections": _CONNECTIONS}
    try:
        import fsspec

        return fsspec.filesystem(scheme, **options)
    except ImportError as error:
        extra = EXTRAS.get(package, "remote")
        raise UsageError(
            f"{scheme}:// addresses need the package {package} ({error}): pip install "
            f"'asdf-antispoofing[{extra}]', or pip install {package}."
        ) from error


def _attempt(address: str, function: Callable[[], Result], done: str = "read") -> Result:
    """Return the result of `function`, after several attempts if necessary.

    Raises:
        FileNotFoundError: the object does not exist.
        BeyondEndError: the object ends before the range.
        AsdfError: no attempt succeeded, or none could.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return function()
        except (AsdfError, MemoryError):
            raise
        except Exception as error:
            problem = _meaning_of(address, error, done)
            if problem is not None:
                raise problem from error
            last = error
        if attempt + 1 < _ATTEMPTS:
            # Random pauses keep thousands of refused processes from returning at once.
            time.sleep(_FIRST_PAUSE_S * 2**attempt * _random.uniform(0.5, 1.5))
    cause = last.__cause__
    reason = _describe(cause if isinstance(cause, Exception) else last)
    raise AsdfError(
        f"{address} could not be {done}, even at the {_ATTEMPTS}th attempt ({reason}). Its store "
        "or the network does not respond as it should: once it does, the same command continues "
        "from what is saved."
    ) from last


def _meaning_of(address: str, error: Exception, done: str) -> Exception | None:
    """Return the error to raise; None if another attempt may help."""
    # fsspec's HTTP file system hides the server's answer behind 'not found'.
    shown = error
    if isinstance(error, FileNotFoundError) and not can_be_listed(address):
        cause = error.__cause__
        if isinstance(cause, Exception) and _is_of_network(cause):
            shown = cause
    response = getattr(shown, "response", None)
    status = getattr(shown, "status", getattr(response, "status_code", None))
    if status == _BEYOND_END or "InvalidRange" in str(error) or "not satisfiable" in str(error):
        return BeyondEndError(address)
    if isinstance(shown, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(2, "No such object", address)
    no_credentials = type(error).__name__ in _NO_CREDENTIALS
    if no_credentials or isinstance(error, PermissionError) or status in (401, 403):
        return AsdfError(
            f"{address} may not be {done} ({_describe(shown)}). Credentials are those that "
            f"{PACKAGES[scheme_of(address)]} finds: environment variables or the files of the "
            "store's own program. A public bucket needs FSSPEC_S3_ANON=true."
        )
    if isinstance(error, IsADirectoryError):
        return AsdfError(f"{address} is a folder, not a file. Check the address.")
    if isinstance(status, int) and 400 <= status < 500 and status not in (_TIMEOUT, _TOO_MANY):
        return AsdfError(f"{address} could not be {done}: {_describe(shown)}. Check the address.")
    if isinstance(error, OSError) or _is_of_network(error):
        return None
    return error


def _is_of_network(error: BaseException) -> bool:
    kind = type(error)
    # Before Python 3.11, asyncio's timeout is not an OSError.
    return kind.__module__.partition(".")[0] in _NETWORK_PACKAGES or "Timeout" in kind.__name__


def _describe(error: Exception) -> str:
    text = str(error).split("\n")[0].strip().rstrip(".")
    return text or type(error).__name__
