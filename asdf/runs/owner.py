"""One run at a time in a system folder.

Invariant: whoever holds the mark holds an advisory lock on it, which the kernel drops when the process dies. File
systems that keep such locks to one node are why the mark also beats: it is touched every few seconds, and another
host's mark is taken over only when it has been still for a while.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from asdf.errors import AsdfError
from asdf.runs.layout import Layout
from asdf.runs.log import LOG

BEAT_S = 10.0
STILL_S = 60.0
# A killed run's loader processes hold its lock until they notice that it is gone, some seconds later.
ORPHANS_S = 20.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


@contextmanager
def owner_mark(folder: Path) -> Iterator[None]:
    """Hold the mark of `folder` (`folder/owner.json`) while the block runs.

    Raises:
        AsdfError: another run that is alive holds it; the message names its host, process and start.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _open_locked(Layout(folder).owner)
        _write(file)
    except OSError as error:
        raise AsdfError(
            f"cannot write in the system folder {folder}: {error.strerror or error}. "
            "Choose another paths.output_folder, free some space, or mend the folder's permissions."
        ) from error
    ended = threading.Event()
    beat = threading.Thread(target=_beat, args=(file, ended), daemon=True)
    try:
        beat.start()
        yield
    finally:
        ended.set()
        if beat.is_alive():
            beat.join()
        Layout(folder).owner.unlink(missing_ok=True)
        file.close()


def _open_locked(path: Path) -> IO[str]:
    """The mark, open and locked; what stands in it is what a dead owner left."""
    orphans_gone = time.monotonic() + ORPHANS_S
    while True:
        file = _open_mark(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _read(file)
            file.close()
            if _is_dead(owner) and time.monotonic() < orphans_gone:
                time.sleep(0.2)
                continue
            raise AsdfError(_refusal(path, owner)) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            # A file system without locks: the mark and its beat have to do.
            owner = _read(file)
            if owner.get("host") == socket.gethostname() and not _is_dead(owner):
                raise AsdfError(_refusal(path, owner)) from None
        left = _read(file)
        if left and _is_at(file, path):
            _wait_until_still(path, file, left)
        if not _is_at(file, path):  # its owner has ended meanwhile, and removed it
            file.close()
            continue
        if left:
            LOG.info(
                "notice: the run that was here (process %s on %s, started %s) ended without saying "
                "so; "
                "going on from what it left",
                left.get("process"),
                left.get("host"),
                left.get("start"),
            )
        return file


def _open_mark(path: Path) -> IO[str]:
    """The mark to be read and written; a link in its place could lead to any file, and is not followed."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666)

    try:
        return open(path, "a+", encoding="utf-8", opener=opener)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise AsdfError(
            f"{path} is a link, and a run writes the mark of its owner there: it would overwrite "
            "what the link leads "
            "to. Remove the link, and see who may write in that folder."
        ) from None


def _write(file: IO[str]) -> None:
    mark = {"host": socket.gethostname(), "process": os.getpid(), "start": _now()}
    file.seek(0)
    file.truncate()
    file.write(json.dumps(mark) + "\n")
    file.flush()


def _wait_until_still(path: Path, file: IO[str], left: dict[str, str]) -> None:
    """Another host's owner may be alive where locks do not cross hosts: see whether its mark still beats."""
    if left.get("host") == socket.gethostname():
        return
    seen = os.fstat(file.fileno()).st_mtime
    # The age is judged by watching, not by the clock: the clocks of two hosts need not agree.
    if time.time() - seen > 10 * STILL_S:
        return
    LOG.info(
        "the system folder bears the mark of a run on %s: waiting %.0f s to see whether it is "
        "alive",
        left.get("host"),
        STILL_S,
    )
    until = time.monotonic() + STILL_S
    while time.monotonic() < until:
        time.sleep(1)
        if not _is_at(file, path):
            return
        if os.fstat(file.fileno()).st_mtime != seen:
            raise AsdfError(_refusal(path, left))


def _beat(file: IO[str], ended: threading.Event) -> None:
    while not ended.wait(BEAT_S):
        os.utime(file.fileno())


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _is_dead(owner: dict[str, str]) -> bool:
    """Whether the process of a mark is known to be gone: it was on this host, and no process has its number."""
    if owner.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(owner["process"]), 0)
    except ProcessLookupError:
        return True
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return False
    return False


def _read(file: IO[str]) -> dict[str, str]:
    """The owner that a mark names, in question marks where it is damaged; nothing where it is empty."""
    file.seek(0)
    try:
        owner = json.loads(file.read() or "{}")
    except (ValueError, RecursionError):
        owner = None
    if isinstance(owner, dict):
        return owner
    return {"host": "?", "process": "?", "start": "?"}


def _refusal(path: Path, owner: dict[str, str]) -> str:
    return (
        f"another run is at work in {path.parent}: process {owner.get('process', '?')} on "
        f"{owner.get('host', '?')}, "
        f"started {owner.get('start', '?')}. Wait for it, stop it, or give this run another "
        "paths.system_folder."
    )


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
