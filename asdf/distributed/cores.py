"""The cores that a process may use, by affinity and by quota, and the memory that it keeps.

A training step on a CPU repeatedly frees and allocates hundreds of megabytes. By default, glibc
returns such blocks to the system at once, and the kernel has to zero each page again, which took a
tenth of the step or more in measurements. Results are not affected.

The GPU's allocator keeps torch's defaults, or PYTORCH_ALLOC_CONF.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# Mount points of the CPU controller in cgroups version 1, which differ between systems.
_FIRST_VERSION = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
_SECOND_VERSION = ("", "unified")
# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# Maximum block sizes for the heap: the limit of some versions, and that of all.
_MMAP_THRESHOLDS = (1 << 30, 32 << 20)
# Unused memory above which a heap shrinks.
_TRIM_THRESHOLD = 1 << 30


def usable_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use, often fewer than the machine has.

    Args:
        root: Folder that contains `proc` and `sys`.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    # The quotas of this process's control group and of all groups that contain it.
    for folder in _control_groups(root):
        # Such as '150000 100000', in version 2 of control groups.
        words = _read_words(folder / "cpu.max")
        quota = _divide(*words) if len(words) == 2 else None
        if not quota:
            first = _read_words(folder / "cpu.cfs_quota_us")
            period = _read_words(folder / "cpu.cfs_period_us")
            quota = _divide(first[0], period[0]) if first and period else None
        if quota:
            cores = min(cores, math.ceil(quota))
    return max(1, cores)


def _control_groups(root: Path) -> Iterator[Path]:
    """Yield the folders of CPU limits, innermost first, for both versions.

    Inside a container, the path is that of the host, of which only the last part may be visible.
    """
    mounts = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        # Version 1 has a hierarchy for each controller; version 2 has one, with an empty field.
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = _FIRST_VERSION if controllers else _SECOND_VERSION
        for name in names:
            group = mounts / name / path.strip("/")
            for folder in (group, *group.parents):
                if folder.is_relative_to(mounts) and folder.is_dir():
                    yield folder


def _divide(quota: str, period: str) -> float | None:
    """Return the quota in cores, or None if it is not a limit ('max' or -1)."""
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None
    return int(quota) / int(period)


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def keep_freed_memory() -> bool:
    """Let the allocator of this process, and of its forked processes, keep freed memory.

    Returns:
        Whether this is possible.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, such as musl
        return False
    if not any(mallopt(_M_MMAP_THRESHOLD, threshold) for threshold in _MMAP_THRESHOLDS):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD))
