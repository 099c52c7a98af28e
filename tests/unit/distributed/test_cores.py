"""How many cores a process may use: affinity, and quotas of control groups of both versions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asdf.distributed import devices
from asdf.distributed.devices import usable_cores


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def eight(monkeypatch):
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda process: range(8), raising=False)


V2 = {"proc/self/cgroup": "0::/user.slice/job_7/step_0\n"}
V1 = {"proc/self/cgroup": "5:memory:/job\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n"}


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 8),
        (V2, 8),
        ({**V2, "sys/fs/cgroup/user.slice/job_7/step_0/cpu.max": "max 100000\n"}, 8),
        ({**V2, "sys/fs/cgroup/user.slice/job_7/step_0/cpu.max": "200000 100000\n"}, 2),
        ({**V2, "sys/fs/cgroup/user.slice/job_7/step_0/cpu.max": "210000 100000\n"}, 3),
        ({**V2, "sys/fs/cgroup/user.slice/job_7/step_0/cpu.max": "5000 100000\n"}, 1),
        ({**V2, "sys/fs/cgroup/user.slice/job_7/step_0/cpu.max": "6400000 100000\n"}, 8),
        # a group further out is narrower
        ({**V2, "sys/fs/cgroup/user.slice/job_7/step_0/cpu.max": "400000 100000\n",
          "sys/fs/cgroup/user.slice/job_7/cpu.max": "150000 50000\n"}, 3),
        # within a container: the path is the host's
        ({**V2, "sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ({**V1, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000\n",
          "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n"}, 2),
        ({**V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({**V1, "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "-1\n",
          "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 8),
        # the groups of another controller say nothing of the CPU
        ({**V1, "sys/fs/cgroup/memory/job/cpu.max": "100000 100000\n"}, 8),
        ({**V2, "sys/fs/cgroup/user.slice/cpu.max": "nonsense\n"}, 8),
    ],
)  # fmt: skip
def test_the_narrowest_quota_counts(eight, tmp_path, files, count):
    assert usable_cores(write(tmp_path, files)) == count


def test_affinity_counts_where_it_is_narrower(tmp_path):
    core = min(os.sched_getaffinity(0))
    root = write(tmp_path, {**V2, "sys/fs/cgroup/cpu.max": "900000 100000\n"})
    code = (
        f"import os; os.sched_setaffinity(0, [{core}]); from pathlib import Path\n"
        "from asdf.distributed.devices import usable_cores\n"
        f"print(usable_cores(Path({str(root)!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "1\n"
    assert usable_cores() <= len(os.sched_getaffinity(0))
