"""How many cores a process may use: by affinity, and by the quota of its container or job."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

# Where the controllers of version 1 are mounted: either name, as systems differ.
_FIRST_VERSION = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: often fewer are granted than the machine has.

    Args:
        root: the folder that `proc` and `sys` lie in.
    """
    granted = [_cores_of_affinity(), *(math.ceil(quota) for quota in _quotas(root))]
    return max(1, min(granted))


def _cores_of_affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """The quotas, in cores, of the control groups of this process and of all groups around them."""
    for folder in _control_groups(root):
        quota = _second_version(folder) or _first_version(folder)
        if quota:
            yield quota


def _control_groups(root: Path) -> Iterator[Path]:
    """Folders with limits on the CPU, from the innermost out, of both versions.

    Within a container the path is that of the host, of which only the container's own end may be
    there to be seen.
    """
    mounts = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = _FIRST_VERSION if controllers else ("", "unified")
        for name in names:
            group = mounts / name / path.strip("/")
            yield from (folder for folder in (group, *group.parents) if _is_below(folder, mounts))


def _is_below(folder: Path, mounts: Path) -> bool:
    return folder.is_relative_to(mounts) and folder.is_dir()


def _second_version(folder: Path) -> float | None:
    """The quota in `cpu.max`, such as '150000 100000'."""
    words = _words(folder / "cpu.max")
    return _divide(words[0], words[1]) if len(words) == 2 else None


def _first_version(folder: Path) -> float | None:
    """The quota in `cpu.cfs_quota_us` and `cpu.cfs_period_us`; -1 is none."""
    quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
    return _divide(quota[0], period[0]) if quota and period else None


def _divide(quota: str, period: str) -> float | None:
    """The quota in cores, or None where it is no limit ('max' or -1)."""
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None
    return int(quota) / int(period)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
