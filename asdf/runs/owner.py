"""One run at a time in a system folder.

Invariant: the owner of a folder holds an advisory lock on its mark, which the kernel releases when
the process dies. On some file systems a lock holds on one node only, so the owner also touches the
mark every few seconds. Another host's mark is taken over only if it has not changed for a while.
"""

from __future__ import annotations

import errno
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
from asdf.runs.systems import can_lock, is_gone, open_flags

BEAT_S = 10.0
STILL_S = 60.0
# Loader processes of a killed run hold its lock for some seconds, until they notice.
ORPHANS_S = 20.0


@contextmanager
def owner_mark(folder: Path) -> Iterator[None]:
    """Hold the mark of `folder` (`folder/owner.json`) while the block runs.

    Raises:
        AsdfError: a live process holds it; the message names its host, process and start.
    """
    path = Layout(folder).owner
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _open_locked(path)
        mark = {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "start": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        file.seek(0)
        file.truncate()
        file.write(json.dumps(mark) + "\n")
        file.flush()
    except OSError as error:
        raise AsdfError(
            f"cannot write in the system folder {folder}: {error.strerror or error}. Choose "
            "another paths.output_folder, free some space, or fix the folder's permissions."
        ) from error
    ended = threading.Event()
    # A daemon thread does not keep a finished process alive.
    beat = threading.Thread(target=_beat, args=(file, ended), daemon=True)
    try:
        beat.start()
        yield
    finally:
        ended.set()
        # Stop the thread first, since it touches the file that is closed below.
        if beat.is_alive():
            beat.join()
        # Remove the file while it is locked, so that nobody can have taken it over.
        path.unlink(missing_ok=True)
        file.close()


def _open_locked(path: Path) -> IO[str]:
    """Return the mark, open and locked; its text is that of a dead owner, if any."""
    orphans_gone = time.monotonic() + ORPHANS_S
    while True:
        file = _open_mark(path)
        is_locked = _lock(file)
        owner = _read(file)
        if is_locked is False:
            file.close()
            if not _is_dead(owner) or time.monotonic() >= orphans_gone:
                raise AsdfError(_refusal(path, owner))
            # Its loader processes still hold the lock and are about to end.
            time.sleep(0.2)
            continue
        # On a file system without locks, only the mark and its modification time count.
        is_same_host = owner.get("host") == socket.gethostname()
        if is_locked is None and is_same_host and not _is_dead(owner):
            raise AsdfError(_refusal(path, owner))
        if owner and _is_at(file, path):
            _wait_until_still(path, file, owner)
        if not _is_at(file, path):  # its owner has ended meanwhile, and removed it
            file.close()
            continue
        if owner:
            LOG.info(
                "notice: the previous run in this folder (process %s on %s, started %s) was "
                "killed; resuming from its files",
                owner.get("process"),
                owner.get("host"),
                owner.get("start"),
            )
        return file


def _lock(file: IO[str]) -> bool | None:
    """Lock a mark; return False if another process holds the lock, None without lock support."""
    try:
        return True if can_lock(file) else None
    except BlockingIOError:
        return False


def _open_mark(path: Path) -> IO[str]:
    """Open the mark for reading and writing.

    A symbolic link is not followed, since it could lead to any file.

    Raises:
        AsdfError: the mark is a symbolic link.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | open_flags("O_NOFOLLOW"), 0o666)

    try:
        # a+: creates the mark if necessary, and never truncates that of a live owner.
        return open(path, "a+", encoding="utf-8", opener=opener)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise AsdfError(
            f"{path} is a link, where a run writes its owner's mark: it would overwrite the target "
            "of the link. Remove the link, and check who may write to that folder."
        ) from None


def _wait_until_still(path: Path, file: IO[str], left: dict[str, str]) -> None:
    """Wait for another host's mark to stop changing, since its owner may be alive.

    Raises:
        AsdfError: the mark changes.
    """
    if left.get("host") == socket.gethostname():
        return
    seen = os.fstat(file.fileno()).st_mtime
    # Judge the age by watching the file, since the clocks of two hosts may differ. No clock
    # difference explains an age beyond this limit.
    if time.time() - seen > 10 * STILL_S:
        return
    LOG.info(
        "the system folder is marked as used by a run on %s: waiting %.0f s to see whether it is "
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
        # Touch the descriptor, since the path may lead to the mark of a later owner.
        os.utime(file.fileno())


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _is_dead(owner: dict[str, str]) -> bool:
    """Whether a mark's process is gone: it ran on this host, and its process id is free."""
    if owner.get("host") != socket.gethostname():
        return False
    try:
        return is_gone(int(owner["process"]))
    # A damaged mark, or a process of another user: not known to be gone.
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return False


def _read(file: IO[str]) -> dict[str, str]:
    """Return the owner that a mark names: question marks if it is damaged, empty if it is empty."""
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
        f"another run is using {path.parent}: process {owner.get('process', '?')} on "
        f"{owner.get('host', '?')}, started {owner.get('start', '?')}. Wait for it, stop it, or "
        "give this run another paths.system_folder."
    )
