"""Files of a run: written next to their path, flushed to disk, then renamed; read as JSON lines.

Outputs that cannot be renamed are written directly: standard output ('-'), open files, pipes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, Any

from asdf.errors import AsdfError, InUseError
from asdf.runs.streams import descriptor_of, stream_errors
from asdf.runs.systems import open_flags
from asdf.text import AnyPath, shorten

_PIECE = 1 << 20
_REFUSED = (errno.EACCES, errno.EROFS, errno.ENAMETOOLONG)


@contextmanager
def atomic_write(path: AnyPath, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that replaces `path` only when the block ends without an error.

    An existing file at `path` stays untouched if the block raises, the disk fills up or the process
    is killed. '-' stands for standard output, which is written directly, as is any other open file
    of this process (`descriptor_of`).

    Raises:
        AsdfError: the folder cannot be created or written, or the disk is full.
        NobodyReadsError: the reader of standard output has closed it.
    """
    descriptor = descriptor_of(path)
    path = Path(path)
    if descriptor is not None:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()  # what was printed before comes first
        with stream_errors(descriptor), _open(os.dup(descriptor), mode) as file:
            yield file
        return
    if path.exists() and not path.is_file():
        # A pipe or /dev/null cannot be replaced by a file, so it is written directly.
        try:
            with _open(os.open(path, os.O_WRONLY | open_flags()), mode) as file:
                yield file
        except OSError as error:
            raise AsdfError(write_advice(path, error)) from error
        return
    try:
        path = path.resolve()  # a link stays one
        path.parent.mkdir(parents=True, exist_ok=True)
        # A unique name: processes that write the same path do not mix their contents.
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        # Mode 0o666 less the user's umask: tempfile would set another mode, and reading the umask
        # would change it for all threads.
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | open_flags(), 0o666)
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error
    try:
        with _open(descriptor, mode) as file:
            yield file
            file.flush()
            # Flush to disk before renaming: a power cut leaves the old file or the new one.
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise AsdfError(write_advice(path, error)) from error
    finally:
        with suppress(OSError):  # its folder may have gone, which is reported already
            unfinished.unlink(missing_ok=True)


def remove_unfinished(folder: Path, older_than_s: float = 0.0, output: str = "") -> None:
    """Remove half-written files of killed processes in `folder`; only its owner may call this.

    Args:
        older_than_s: Minimum age of files to remove, in seconds, for a folder with other writers.
        output: Name of the only output whose unfinished files are removed, where the caller is its
            only writer; '' for all.
    """
    pattern = f".{escape(output)}.*.part" if output else ".*.part"
    for path in folder.glob(pattern):
        with suppress(OSError):  # another process may remove it as well, or may own it
            if not older_than_s or time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()


def files_named(folder: Path, *beginnings: str, end: str = "") -> list[Path]:
    """Return the files of a folder whose names begin and end so, sorted.

    There are none where there is no such folder.

    Raises:
        AsdfError: it cannot be read.
    """
    found = []
    try:
        for path in folder.iterdir():
            if path.name.startswith(beginnings) and path.name.endswith(end):
                found.append(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AsdfError(f"cannot read {folder}: {error.strerror}. Check its permissions.") from None
    return sorted(found)


def write_text(path: AnyPath, text: str) -> None:
    """Write `text` to `path` atomically."""
    with atomic_write(path) as file:
        file.write(text)


def _open(descriptor: int, mode: str) -> IO[Any]:
    if "b" in mode:
        return os.fdopen(descriptor, mode)
    # The same bytes on every system, so that digests of outputs can be compared.
    return os.fdopen(descriptor, mode, encoding="utf-8", newline="\n")


def write_advice(path: Path, error: OSError) -> str:
    """Return the message for a `path` that cannot be written."""
    return (
        f"cannot write {path}: {error.strerror or error}. The previous content is unchanged. Free "
        "some space or choose another folder (of a run: paths.output_folder), then start the same "
        "command again: a run resumes from the newest checkpoint."
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file's content, read in blocks.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(_PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()


def digest_of(path: Path) -> str:
    """Return the digest of a file's content, or of all files in a folder.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    # Sorted, since folders list their files in arbitrary order.
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            # A zero byte ends the name, since no name contains one.
            digest.update(os.fsencode(file.relative_to(path)) + b"\0")
            digest.update(sha256_of(file).encode())
    return digest.hexdigest()


def explain_path(error: BaseException) -> AsdfError | None:
    """Return the message for a path that the system refuses; None for any other error."""
    if isinstance(error, FileNotFoundError):
        try:
            Path.cwd()
        except FileNotFoundError:
            return AsdfError(
                "the folder that this command was started in was removed. Change to a folder that "
                "exists (cd), then start the same command again."
            )
    elif isinstance(error, OSError) and error.errno in _REFUSED:
        what = f"{shorten(str(error.filename))}: {error.strerror}"
        return AsdfError(f"cannot access {what}. Correct the path or its permissions.")
    return None


@contextmanager
def one_at_a_time(path: Path) -> Iterator[bool]:
    """Let one of several processes create a file while the others wait.

    Yield whether this process is alone. On file systems without locks, or in folders that this user
    cannot write, each process creates the file, and the value is False.
    """
    # On demand: settings are read without any package.
    from filelock import FileLock

    lock = FileLock(path.with_name(f".{path.name}.lock"))
    with suppress(OSError):
        lock.acquire()
    try:
        yield lock.is_locked
    finally:
        lock.release()


def lock_work(folder: Path, output: Path) -> AbstractContextManager[Any]:
    """Return a held lock in `folder`, a context, that keeps others from writing the same output.

    Args:
        folder: Folder of the intermediate files of the output.

    Raises:
        InUseError: another process writes the same output.
        AsdfError: the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = FileLock(folder / "lock").acquire(timeout=0)
    except Timeout:
        raise InUseError(
            f"another process is writing {output}. Wait for it, or name another output."
        ) from None
    except OSError as error:
        raise AsdfError(write_advice(folder, error)) from error
    remove_unfinished(folder)
    remove_unfinished(output.resolve().parent, output=output.name)
    return held


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; empty if it does not exist.

    Lines that are not records are skipped, such as the last line of a killed or active run, or the
    remains of a power cut.

    Raises:
        AsdfError: it cannot be read at all.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror}. Is it a file of a run?") from None
    records = []
    for line in lines:
        # RecursionError: a damaged line may be a million brackets.
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict):
                records.append(record)
    return records
