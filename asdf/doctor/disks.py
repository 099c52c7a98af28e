"""Checks of an output folder: free space, atomic renaming, and locks."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from asdf.doctor.finding import MISSING, OK, WARNING, Finding, Step
from asdf.runs.systems import can_lock

_GIB = 2**30
_LITTLE = 2 * _GIB
_TOO_LITTLE = 100 * 2**20
_FEW_INODES = 1000
_ELSEWHERE = "Choose another folder (of a run: paths.output_folder; caches: HF_HOME, TMPDIR)"
# File systems in memory.
_IN_MEMORY = ("tmpfs", "ramfs")


def steps(folder: str) -> Sequence[Step]:
    """Return the steps for a folder."""
    name = f"folder {folder}"
    hangs = f"Its disk does not respond or denies access: see df and mount. {_ELSEWHERE}"
    return [Step(name, partial(look_at_folder, Path(folder), name), hangs)]


def look_at_folder(folder: Path, name: str) -> Iterable[Finding]:
    """Yield findings on a folder's disk, after writing, locking and renaming a file in it."""
    existing = folder
    # A run makes missing folders, on the disk of the nearest one that exists.
    while not existing.is_dir():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    kind = _file_system(existing)
    text = f"{free / _GIB:.1f} GiB free, {kind or 'file system unknown'}"
    if existing != folder:
        text += f" (of {existing}: it does not exist yet)"
    if free < _TOO_LITTLE:
        yield Finding(name, MISSING, f"{text}: full", _ELSEWHERE)
        return
    try:
        locks = _try_writing(existing)
    except OSError as error:
        text += f"; cannot be written: {error.strerror or error}"
        yield Finding(name, MISSING, text, _ELSEWHERE)
        return
    remarks = []
    if not locks:
        remarks.append("no locks: two runs in one folder detect each other a minute late")
    if free < _LITTLE:
        remarks.append("little space: checkpoints of a large front end take 4 GB each")
    # Some file systems create inodes on demand, and report 0.
    disk = os.statvfs(existing) if hasattr(os, "statvfs") else None
    if disk is not None and disk.f_files and disk.f_favail < _FEW_INODES:
        remarks.append(f"only {disk.f_favail} more files fit")
    if kind in _IN_MEMORY:
        remarks.append("in memory: its contents are lost on restart")
    if remarks:
        yield Finding(name, WARNING, f"{text}; {'; '.join(remarks)}", _ELSEWHERE)
        return
    yield Finding(name, OK, text)


def _try_writing(folder: Path) -> bool:
    """Write, lock and rename a file as runs do; return whether locking works.

    Raises:
        OSError: the file cannot be written or renamed.
    """
    unfinished = folder / f".asdf-doctor.{secrets.token_hex(4)}.part"
    renamed = unfinished.with_suffix(".whole")
    try:
        with unfinished.open("wb") as file:
            file.write(b"asdf doctor")
            file.flush()
            os.fsync(file.fileno())
            locks = can_lock(file)
        unfinished.replace(renamed)
    finally:
        for path in (unfinished, renamed):
            with suppress(OSError):
                path.unlink()
    return locks


def _file_system(folder: Path) -> str:
    """Return the kind of the file system of a folder, such as 'ext4' or 'nfs4'; '' if unknown."""
    kind = ""
    longest = -1
    resolved = folder.resolve()
    mounts = Path("/proc/mounts")
    if not mounts.exists():  # macOS, Windows
        return ""
    for line in mounts.read_text(errors="replace").splitlines():
        _, point, mounted, *_ = line.split(" ")
        # A space in the path is written as an octal number.
        mount = Path(point.replace("\\040", " "))
        # The last of several mounts at one path is visible.
        if resolved.is_relative_to(mount) and len(mount.parts) >= longest:
            longest = len(mount.parts)
            kind = mounted
    return kind
