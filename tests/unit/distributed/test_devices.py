"""Which device a process computes on: GPUs, builds of torch, cores, and freed memory."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from asdf.distributed import devices
from asdf.distributed.devices import (
    Build,
    SeenGpus,
    check_kernels,
    choose_device,
    cpu_notice,
    describe_mapping,
    driver_version,
    fitting_cuda,
    has_kernels,
    install_line,
    installed_torch,
    read_build,
    usable_cores,
    usable_gpus,
    visibility_variable,
    visible_gpus,
)
from asdf.distributed.launchers import Launch
from asdf.errors import UsageError
from asdf.settings.sections import Computing


@pytest.mark.parametrize(
    ("ids", "local_rank", "local_size", "device"),
    [
        (None, 0, 1, "cuda:0"),
        (None, 2, 3, "cuda:2"),
        ((0, 2, 3), 0, 3, "cuda:0"),
        ((0, 2, 3), 1, 3, "cuda:2"),
        ((0, 2, 3), 2, 3, "cuda:3"),
        ((3, 1), 0, 1, "cuda:3"),  # more GPUs than processes: the first ones
    ],
)
def test_the_local_rank_chooses_among_gpu_ids(ids, local_rank, local_size, device):
    assert choose_device(Computing(gpu_ids=ids), local_rank, local_size, gpus=4) == device


def test_fewer_gpus_than_processes_are_assumed_to_be_one_each():
    assert [choose_device(Computing(), rank, 4, gpus=1) for rank in range(4)] == ["cuda:0"] * 4
    devices = [choose_device(Computing(), rank, 4, gpus=2) for rank in range(4)]
    assert devices == ["cuda:0", "cuda:1", "cuda:0", "cuda:0"]


def test_no_usable_gpu_means_the_cpu():
    assert choose_device(Computing(gpu_ids=(0, 1)), 1, 2, gpus=0) == "cpu"


@pytest.mark.parametrize(
    ("ids", "local_size", "said"),
    [
        ((0,), 2, "2 processes on this node, but only 1 GPUs named"),
        ((1, 1), 2, "a GPU is named twice"),
        ((0, 4), 2, "GPU 4 does not exist: 4 visible, numbered from 0"),
    ],
)  # fmt: skip
def test_a_mapping_that_cannot_be_is_refused(monkeypatch, ids, local_size, said):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    with pytest.raises(UsageError) as caught:
        choose_device(Computing(gpu_ids=ids), 0, local_size, gpus=4)
    assert said in str(caught.value) and "CUDA_VISIBLE_DEVICES is 4,5,6,7" in str(caught.value)


CUDA = Build("2.14.1+cu130", "CUDA 13.0")
CPU_BUILD = Build("2.14.1+cpu", "")
ONE = SeenGpus(count=0, on_node=1, build=CUDA, driver="580.65.06")


@pytest.mark.parametrize(
    ("computing", "seen", "gpus"),
    [
        (Computing(), SeenGpus(2, 2, CUDA), 2),
        (Computing(use_gpu="required"), SeenGpus(1, 1, CUDA), 1),
        (Computing(use_gpu=False), SeenGpus(2, 2, CUDA), 0),
        (Computing(use_gpu=False), ONE, 0),
        (Computing(use_gpu=False, gpu_ids=(0,)), SeenGpus(0, 0, CUDA), 0),
        (Computing(), SeenGpus(0, 0, CUDA), 0),
        (Computing(), SeenGpus(0, 0, CPU_BUILD), 0),
        (Computing(), SeenGpus(0, 0, CUDA, other="MPS"), 0),
    ],
)
def test_the_cpu_only_if_it_was_requested_or_no_gpu_exists(computing, seen, gpus):
    assert usable_gpus(computing, seen) == gpus


REQUIRED, NAMED = Computing(use_gpu="required"), Computing(gpu_ids=(0,))


@pytest.mark.parametrize(
    ("computing", "seen", "said"),
    [
        (REQUIRED, SeenGpus(0, 0, CUDA),
         "use_gpu = 'required', but no NVIDIA GPU was found. In a job ask for one (Slurm: "
         "--gres=gpu:1 or --gpus=1), or compute on the CPU with computing.use_gpu=False."),
        (NAMED, SeenGpus(0, 0, CUDA), "computing.gpu_ids = (0,) names GPUs, but no NVIDIA GPU was"),
        (NAMED, SeenGpus(0, 0, CUDA), "with computing.use_gpu=False computing.gpu_ids=None. Seen"),
        (REQUIRED, SeenGpus(0, 0, CUDA, other="MPS"),
         "but ASDF supports GPUs of NVIDIA and AMD, not MPS."),
        (Computing(), replace(ONE, build=CPU_BUILD),
         "this machine has 1 NVIDIA GPU, but the installed torch 2.14.1+cpu supports the CPU "
         f"only. Install a build for GPUs: {install_line('cu130')}, or compute on the CPU with "
         "computing.use_gpu=False. Seen: 1 NVIDIA GPU, driver 580.65.06, torch 2.14.1+cpu (for "
         "the CPU only), CUDA_VISIBLE_DEVICES not set."),
        (Computing(), replace(ONE, on_node=4, shown=""),
         "has 4 NVIDIA GPUs, but CUDA_VISIBLE_DEVICES='' hides them"),
        (Computing(), replace(ONE, shown="-1"), "='-1' hides them all. Unset it, or in a job"),
        (Computing(), replace(ONE, driver="535.104.05"),
         "its driver 535.104.05 is older than the installed torch needs (580 for CUDA 13). "
         f"Install a build for CUDA 12: {install_line('cu126')}"),
        (Computing(), replace(ONE, driver="470.82.01"),
         "its driver 470.82.01 is older than 525, which CUDA 12 needs. Update the driver"),
        (Computing(), replace(ONE, failure="CUDA unknown error"),
         "cannot access any of them: CUDA unknown error. Check whether nvidia-smi lists"),
        (Computing(), replace(ONE, driver=""),
         "Seen: 1 NVIDIA GPU, no driver loaded, torch 2.14.1+cu130 (CUDA 13.0)"),
    ],
)  # fmt: skip
def test_a_gpu_that_cannot_be_used_ends_the_run_with_the_reason(computing, seen, said):
    with pytest.raises(UsageError) as caught:
        usable_gpus(computing, seen)
    assert said in str(caught.value)


def test_a_run_on_the_cpu_that_might_have_expected_a_gpu_says_so():
    assert cpu_notice(Computing(), "cpu") == (
        "no GPU that torch can use: computing on the CPU (computing.use_gpu='required' makes this "
        "fatal, False hides this line)"
    )
    assert cpu_notice(Computing(), "cuda") == cpu_notice(Computing(use_gpu=False), "cpu") == ""


def test_the_mapping_of_a_node_as_lines(monkeypatch):
    def see(count, on_node=4):
        monkeypatch.setattr(devices, "look_without_torch", lambda: SeenGpus(count, on_node, CUDA))

    see(4)
    two = Computing(gpu_ids=(2, 0), processes=2)
    assert describe_mapping(two, Launch()) == ["local rank 0: cuda:2", "local rank 1: cuda:0"]
    with pytest.raises(UsageError, match="GPU 4 does not exist: 4 visible"):
        describe_mapping(Computing(processes=5), Launch())
    see(1)
    assert describe_mapping(Computing(), Launch(1, 2, 1, 2, "srun", "n1", 1)) == [
        "local rank 0: cuda:0",
        "local rank 1: cuda:0",
        "this process sees 1 of the GPUs: each process must see its own",
    ]
    see(0, on_node=0)
    notice = cpu_notice(Computing(), "cpu")
    assert describe_mapping(Computing(), Launch()) == ["local rank 0: cpu", notice]
    assert describe_mapping(Computing(use_gpu=False), Launch()) == ["local rank 0: cpu"]
    with pytest.raises(UsageError, match="'required', but no NVIDIA GPU was found"):
        describe_mapping(Computing(use_gpu="required"), Launch())


TO_126, TO_130 = install_line("cu126"), install_line("cu130")
CUDA_126 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
CUDA_130 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]


@pytest.mark.parametrize(
    ("capability", "kernels", "has"),
    [
        ((7, 0), CUDA_126, True),
        ((7, 0), CUDA_130, False),
        ((7, 5), CUDA_130, True),
        ((6, 1), CUDA_126, True),  # code for 6.0
        ((8, 9), CUDA_130, True),  # code for 8.6
        ((10, 0), CUDA_126, False),
        ((12, 1), CUDA_130, True),
        ((13, 0), CUDA_130, True),  # from the virtual code for 12.0
        ((11, 0), CUDA_130, False),
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_90a"], True),
        ((9, 1), ["sm_90a", "compute_90a"], False),
        ((10, 3), ["sm_100f"], True),
        ((9, 0), ["gfx90a", "gfx942"], True),  # AMD's
        ((7, 0), [], True),  # nothing is known
    ],
)
def test_which_gpus_a_build_serves(capability, kernels, has):
    assert has_kernels(capability, kernels) is has


@pytest.mark.parametrize(
    ("capability", "kernels", "platform", "advice"),
    [
        ((7, 0), CUDA_130, "CUDA 13.0", f"The builds for CUDA 12.6 have them: {TO_126}"),
        ((12, 0), CUDA_126, "CUDA 12.6", f"The builds for CUDA 13.0 have them: {TO_130}"),
        ((3, 7), CUDA_126, "CUDA 12.6", "No build of torch 2.9 or newer has them"),
    ],
)
def test_a_gpu_without_kernels_is_refused_with_the_build_that_has_them(
    capability, kernels, platform, advice
):
    with pytest.raises(UsageError) as caught:
        check_kernels("Tesla X", capability, kernels, Build("2.14.1", platform))
    assert str(caught.value) == (
        f"Tesla X has compute capability {capability[0]}.{capability[1]}, and the installed torch "
        f"2.14.1 ({platform}) has kernels for {', '.join(kernels)} only. {advice}; or compute on "
        "the CPU with computing.use_gpu=False."
    )


def test_the_line_that_installs_another_build():
    assert install_line("cu126") == (
        "pip install --force-reinstall 'torch>=2.11,<2.15' 'torchaudio==2.11.*' "
        "--index-url https://download.pytorch.org/whl/cu126"
    )
    drivers = ("580.65.06", "575.57", "525.60.13", "470.82.01", "")
    assert [fitting_cuda(driver) for driver in drivers] == ["cu130", "cu126", "cu126", "", "cu130"]


@pytest.mark.parametrize(
    ("cuda", "hip", "build"),
    [
        ("'13.0'", "None", Build("2.14.1+x", "CUDA 13.0")),
        ("None", "'6.4.4'", Build("2.14.1+x", "ROCm 6.4.4")),
        ("None", "None", Build("2.14.1+x", "")),
    ],
)
def test_the_build_is_read_from_the_installed_files(cuda, hip, build):
    text = (
        "from typing import Optional\n"
        "__all__ = ['__version__', 'cuda', 'hip']\n"
        "__version__ = '2.14.1+x'\n"
        "debug = False\n"
        f"cuda: Optional[str] = {cuda}\n"
        "git_version = '5c48'\n"
        f"hip: Optional[str] = {hip}\n"
    )
    assert read_build(text) == build


def test_the_installed_build_is_the_one_that_is_imported():
    build = installed_torch()
    assert build.version == torch.__version__
    assert build.platform.partition(" ")[2] == (torch.version.cuda or torch.version.hip or "")


def machine(root: Path, nvidia: int = 0, amd: int = 0, driver: str = "") -> Path:
    """The files of a machine with these GPUs."""
    for number in range(nvidia):
        (root / f"proc/driver/nvidia/gpus/0000:0{number}:00.0").mkdir(parents=True)
    if driver:
        version = (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar 12\n"
            "GCC version: 12.2.0\n"
        )
        (root / "proc/driver/nvidia/version").write_text(version)
    for number, units in enumerate([0, *[440] * amd] if amd else []):  # the first is the CPU
        node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\nsimd_count {units}\n")
    return root


@pytest.mark.parametrize(
    ("shown", "count"), [(None, 2), ("1", 1), ("0,1", 2), ("0,1,2", 2), ("", 0), ("-1", 0)]
)
def test_visible_gpus_are_those_that_are_there_and_shown(tmp_path, shown, count):
    environment = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    assert visible_gpus(machine(tmp_path, nvidia=2), environment) == count
    files = tmp_path / "other"
    (files / "dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (files / "dev" / name).touch()
    assert visible_gpus(files, environment) == count


def test_gpus_of_amd_are_counted_where_there_are_none_of_nvidia(tmp_path):
    root = machine(tmp_path, amd=4)
    assert visible_gpus(root, {}) == 4
    assert visible_gpus(root, {"ROCR_VISIBLE_DEVICES": "0,1"}) == 2
    assert visible_gpus(root, {"HIP_VISIBLE_DEVICES": "3", "ROCR_VISIBLE_DEVICES": "0,1"}) == 1
    assert visible_gpus(tmp_path / "nothing", {}) == 0
    assert visibility_variable(root) == "HIP_VISIBLE_DEVICES"
    assert visibility_variable(machine(root, nvidia=1)) == "CUDA_VISIBLE_DEVICES"
    assert visibility_variable(tmp_path / "nothing") == "CUDA_VISIBLE_DEVICES"


def test_the_driver_says_its_version(tmp_path):
    assert driver_version(machine(tmp_path, nvidia=1, driver="535.104.05")) == "535.104.05"
    assert driver_version(tmp_path / "nothing") == ""


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


FAULTS = """
import resource, sys
from asdf.distributed.devices import keep_freed_memory
# Less than before is no wish to give memory back.
if sys.argv[1] == "kept" and not (keep_freed_memory() and keep_freed_memory(1 << 20)):
    sys.exit(3)
import numpy as np
def work():
    # 120 MiB together; for arrays above 4 MiB numpy requests huge pages.
    blocks = [np.ones(3 << 17) for _ in range(40)]
    del blocks

for _ in range(3):
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip("another allocator than glibc's")
    return int(done.stdout)


def test_a_block_that_is_requested_again_brings_no_new_pages():
    assert page_faults("kept") < 1000 < 10_000 < page_faults("as it is")
