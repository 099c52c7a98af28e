"""Resident memory of this process, and the part of a fork's that is not shared.

The values are None without Linux's /proc, which the functions on other processes take for granted.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LINUX = sys.platform.startswith("linux")


def settled() -> int | None:
    """Return the resident bytes without reserved memory; the peak is measured from here on."""
    if not _LINUX:
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _kib("/proc/self/status", "VmRSS:") * 1024


def peak() -> int | None:
    """Return the maximum resident memory since `settled`, in bytes."""
    return _kib("/proc/self/status", "VmHWM:") * 1024 if _LINUX else None


def copied_by_a_fork(function: Callable[[], Any]) -> int | None:
    """Return the bytes that a fork adds by calling `function`: pages are copied on write."""
    if not _LINUX:
        return None
    gc.collect()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = _kib("/proc/self/smaps_rollup", "Private_Dirty:")
        function()
        os.write(writing, str(_kib("/proc/self/smaps_rollup", "Private_Dirty:") - before).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        copied = pipe.read()
    os.waitpid(child, 0)
    return max(0, int(copied)) * 1024


def processes_of(process: int) -> list[int]:
    """Return a process and those that it started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [process, *(int(child) for task in tasks for child in task.read_text().split())]


def unshared(process: int) -> int:
    """Return the bytes that a process shares with no other (USS)."""
    return _kib(f"/proc/{process}/smaps_rollup", "Private_") * 1024


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process so far."""
    # The name of the program, in parentheses, may hold spaces.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kib(path: str, name: str) -> int:
    return sum(
        int(line.split()[1])
        for line in Path(path).read_text().splitlines()
        if line.startswith(name)
    )
