"""Checks of cores, memory, shared memory and open files available to a process."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from asdf.distributed.cores import usable_cores
from asdf.doctor.finding import OK, WARNING, Finding, Step
from asdf.runs.systems import open_files_limit

_GIB = 2**30
_ROOT = Path("/")
_ENOUGH_MEMORY = 4 * _GIB
# A batch of clips in a loader's process takes megabytes, and several are in transit.
_ENOUGH_SHARED = _GIB
_ENOUGH_FILES = 1024
# Paths in version 2 and version 1 of control groups.
_MEMORY_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


def steps() -> Sequence[Step]:
    """Return the steps of this group."""
    of_linux = [
        Step("memory", look_at_memory, "See /proc/meminfo", failed=WARNING),
        Step("/dev/shm", look_at_shared_memory, "Mount it", failed=WARNING),
    ]
    return [
        Step("system", look_at_system, "Train on Linux", failed=WARNING),
        Step("cores", look_at_cores, "Set computing.threads", failed=WARNING),
        *(of_linux if sys.platform.startswith("linux") else ()),
        Step("open files", look_at_files, "ulimit -n 4096", failed=WARNING),
    ]


def look_at_system(system: str = sys.platform) -> Iterable[Finding]:
    """Yield the operating system, and what is not supported on it."""
    if system.startswith("linux"):
        yield Finding("system", OK, f"Linux {platform.release()}")
        return
    name = {"darwin": "macOS", "win32": "Windows"}.get(system, system)
    text = (
        f"{name}: scoring on the CPU (score, Detector, evaluate, report) should work. Not "
        "supported: training, several processes or GPUs, launching runs, Slurm"
    )
    yield Finding("system", WARNING, text, "Train on Linux; on Windows, use WSL")


def look_at_cores() -> Iterable[Finding]:
    """Yield how many cores are available, and whether more threads are requested."""
    cores = usable_cores()
    text = f"{cores} usable"
    on_machine = os.cpu_count() or cores
    if cores < on_machine:
        text += f" of {on_machine} (affinity, or the quota of a container or job)"
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > cores:
        text += f", but OMP_NUM_THREADS={threads}: threads would compete for cores"
        yield Finding("cores", WARNING, text, f"export OMP_NUM_THREADS={cores}, or unset it")
        return
    yield Finding("cores", OK, text)


def look_at_memory(root: Path = _ROOT) -> Iterable[Finding]:
    """Yield the free memory, of the machine and of the container or job."""
    numbers = {}
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        numbers[name] = int(rest.split()[0]) * 1024
    total = numbers["MemTotal"]
    # Kernels before 3.14 state no MemAvailable.
    available = numbers.get("MemAvailable", numbers["MemFree"])
    text = f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB available"
    # The limit of this container or job; "max" means none.
    limits = [root / name for name in _MEMORY_LIMITS if (root / name).is_file()]
    words = limits[0].read_text().strip() if limits else ""
    limit = int(words) if words.isdecimal() else total
    if limit < total:
        text += f", limited to {limit / _GIB:.1f} GiB by the container or job"
        available = min(available, limit)
    if available < _ENOUGH_MEMORY:
        mend = "Close other programs, or request more in the job; small networks train anyway"
        yield Finding("memory", WARNING, text, mend)
        return
    yield Finding("memory", OK, text)


def look_at_shared_memory(folder: Path = Path("/dev/shm")) -> Iterable[Finding]:
    """Yield the space for batches that loaders' processes pass on."""
    mend = "computing.network_dataloader_workers=0, or a container with --shm-size=8g"
    if not folder.is_dir():
        yield Finding("/dev/shm", WARNING, "missing: loader processes cannot pass data", mend)
        return
    free = shutil.disk_usage(folder).free
    text = f"{free / _GIB:.1f} GiB free"
    if free < _ENOUGH_SHARED:
        yield Finding("/dev/shm", WARNING, f"{text}: loader processes may fail", mend)
        return
    yield Finding("/dev/shm", OK, text)


def look_at_files() -> Iterable[Finding]:
    """Yield the maximum number of open files of a process."""
    limit = open_files_limit()
    if limit.soft is None:
        yield Finding("open files", OK, "no limit")
    elif limit.soft < _ENOUGH_FILES:
        text = f"{limit.soft} at most: many loaders or tars may need more"
        mend = f"ulimit -n {limit.hard or 4096}"
        yield Finding("open files", WARNING, text, mend)
    else:
        yield Finding("open files", OK, f"{limit.soft} at most")
