"""The device of a process: `gpu_ids[local rank]` among the GPUs in CUDA_VISIBLE_DEVICES.

The local rank counts, not the global one, since each node has its own GPU 0. Invariant: a run uses
the CPU only if that was requested or no GPU exists. Nothing here starts CUDA or imports torch, so a
dry run can print the mapping at once: the build of the installed torch is read from its files;
`asdf.distributed.gpus` asks torch.

The cores that a process may use, by affinity and by quota, and the memory that it keeps.

A training step on a CPU repeatedly frees and allocates hundreds of megabytes, and the score of a
short recording a few. By default, glibc returns such blocks to the system at once, and the kernel
has to zero each page again, which took a tenth of the step, and a fifth of the score, or more in
measurements. Results are not affected.

The GPU's allocator keeps torch's defaults, or PYTORCH_ALLOC_CONF.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from asdf.distributed.launchers import Launch
from asdf.errors import UsageError
from asdf.settings.sections import Computing

# Mount points of the CPU controller in cgroups version 1, which differ between systems.
_FIRST_VERSION = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
_SECOND_VERSION = ("", "unified")
# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# Maximum size of a block in the heap that all versions accept; some accept any.
_MMAP_THRESHOLD = 32 << 20
_kept_bytes = 0


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
        # Such as '150000 100000', in version 2 of control groups; 'max' and -1 are no limits.
        first = _read(folder / "cpu.cfs_quota_us") + _read(folder / "cpu.cfs_period_us")
        words = (_read(folder / "cpu.max") or first).split()
        if len(words) == 2 and all(word.isdecimal() and int(word) for word in words):
            cores = min(cores, math.ceil(int(words[0]) / int(words[1])))
    return max(1, cores)


def _control_groups(root: Path) -> Iterator[Path]:
    """Yield the folders of CPU limits, innermost first, for both versions.

    Inside a container, the path is that of the host, of which only the last part may be visible.
    """
    mounts = root / "sys" / "fs" / "cgroup"
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
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


def _read(path: Path) -> str:
    """Return the text of a file of the kernel; '' if there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""


def keep_freed_memory(most: int = 1 << 30) -> bool:
    """Let the allocator of this process, and of its forked processes, keep freed memory.

    Args:
        most: Bytes of unused memory above which a heap shrinks, and of the largest block in it;
            less than in an earlier call has no effect.

    Returns:
        Whether this is possible.
    """
    global _kept_bytes
    if not sys.platform.startswith("linux"):
        return False
    if most <= _kept_bytes:
        return True
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, such as musl
        return False
    if not any(mallopt(_M_MMAP_THRESHOLD, size) for size in (most, _MMAP_THRESHOLD)):
        return False
    _kept_bytes = most
    return bool(mallopt(_M_TRIM_THRESHOLD, most))


# Compatible versions of torch and torchaudio.
TORCH_PAIR = "'torch>=2.11,<2.15' 'torchaudio==2.11.*'"
# PyTorch's support matrix for torch 2.9 to 2.14 on x86: the CUDA 12.6 builds have kernels for 5.0
# to 9.0, those of CUDA 13 for 7.5 to 12.0. Of the CUDA 12.8 builds, only those of 2.9 and 2.10
# support 7.0; 2.15 drops 12.6.
_OLDEST = (5, 0)
_OLDEST_OF_CUDA_13 = (7, 5)
# The first NVIDIA drivers that support CUDA 13 and 12.
_DRIVERS = ((580, "cu130"), (525, "cu126"))

_ROOT = Path("/")
# A node in the kernel's list is a GPU if it has vector units.
_HAS_VECTOR_UNITS = re.compile(r"^simd_count [1-9]", re.MULTILINE)
_DRIVER_VERSION = re.compile(r"\s(\d+\.\d[\d.]*)\s")
_SLURM_OPTIONS = "(Slurm: --gres=gpu:1 or --gpus=1)"


@dataclass(frozen=True)
class Build:
    """A build of torch. `platform` is 'CUDA 13.0', 'ROCm 6.4', or '' for one without GPUs."""

    version: str
    platform: str

    def __str__(self) -> str:
        return f"torch {self.version} ({self.platform or 'for the CPU only'})"


def installed_torch() -> Build:
    """Return the build of torch that `import torch` would load."""
    spec = find_spec("torch")
    for folder in (spec and spec.submodule_search_locations) or []:
        path = Path(folder) / "version.py"
        if path.is_file():
            return read_build(path.read_text(encoding="utf-8"))
    return Build("", "")


def read_build(text: str) -> Build:
    """Return the build that torch's `version.py` describes."""
    # Lines have the form `cuda: Optional[str] = '13.0'`; None is not quoted.
    values = dict(re.findall(r"^(\w+)\b[^=\n]*= *'([^'\n]*)'", text, re.MULTILINE))
    platform = ""
    if values.get("cuda"):
        platform = f"CUDA {values['cuda']}"
    elif values.get("hip"):
        platform = f"ROCm {values['hip']}"
    return Build(values.get("__version__", ""), platform)


def install_line(cuda: str) -> str:
    """Return the command that replaces torch by a build for `cuda`, such as 'cu126'."""
    # --force-reinstall, since pip considers a build for another CUDA as already installed.
    index = f"https://download.pytorch.org/whl/{cuda}"
    return f"pip install --force-reinstall {TORCH_PAIR} --index-url {index}"


def fitting_cuda(driver: str) -> str:
    """Return the newest CUDA that a driver such as '535.104.05' supports; '' if none.

    An unknown driver counts as the newest.
    """
    if not driver[:1].isdecimal():
        return _DRIVERS[0][1]
    major = int(driver.partition(".")[0])
    for oldest, cuda in _DRIVERS:
        if major >= oldest:
            return cuda
    return ""


def has_kernels(capability: tuple[int, int], kernels: Sequence[str]) -> bool:
    """Return whether a GPU can run one of the kernels that torch was built with.

    Args:
        capability: Compute capability of the GPU, such as (7, 0).
        kernels: Result of `torch.cuda.get_arch_list()`.
    """
    for kernel in kernels:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", kernel)
        if match is None:
            return True  # another maker's GPU: its own software checks
        kind, major, minor, letter = match.groups()
        built_for = (int(major), int(minor))
        # Machine code (sm_XY) runs on GPUs with the same X and at least Y, code for a virtual GPU
        # (compute_XY) on all from X.Y on, and either with the letter a only on X.Y.
        runs_newer = kind == "compute" or capability[0] == built_for[0]
        if capability == built_for or (capability > built_for and runs_newer and letter != "a"):
            return True
    return not kernels


def check_kernels(
    gpu: str, capability: tuple[int, int], kernels: Sequence[str], build: Build
) -> None:
    """Refuse a GPU for which the installed torch has no kernels, since each use would fail.

    Args:
        gpu: Name of the GPU, for the message.
        capability, kernels: Capability and kernels as in `has_kernels`.

    Raises:
        UsageError: none of the kernels run on it; the message names a suitable build.
    """
    if has_kernels(capability, kernels):
        return
    if capability < _OLDEST:
        remedy = "No build of torch 2.9 or newer has them"
    elif capability < _OLDEST_OF_CUDA_13:
        remedy = f"The builds for CUDA 12.6 have them: {install_line('cu126')}"
    else:
        remedy = f"The builds for CUDA 13.0 have them: {install_line('cu130')}"
    raise UsageError(
        f"{gpu} has compute capability {capability[0]}.{capability[1]}, and the installed {build} "
        f"has kernels for {', '.join(kernels)} only. {remedy}; or compute on the CPU with "
        "computing.use_gpu=False."
    )


@dataclass(frozen=True)
class SeenGpus:
    """The known facts about the GPUs of this machine.

    Attributes:
        count: Number of GPUs that this process can use.
        on_node: Number of NVIDIA GPUs in the machine, whether or not this process may use them.
        shown: Value of CUDA_VISIBLE_DEVICES, or None if it is not set.
        driver: Version of NVIDIA's driver, '' if none is loaded.
        failure: Reason why CUDA did not start.
        other: GPUs that ASDF does not support, such as 'MPS'.
    """

    count: int
    on_node: int
    build: Build
    shown: str | None = None
    driver: str = ""
    failure: str = ""
    other: str = ""

    def describe(self) -> str:
        """Describe the GPUs for a message."""
        driver = f"driver {self.driver}" if self.driver else "no driver loaded"
        shown = "not set" if self.shown is None else repr(self.shown)
        gpus = f"{self.on_node or 'no'} NVIDIA GPU{'s' * (self.on_node > 1)}, {driver}"
        return f"{gpus}, {self.build}, CUDA_VISIBLE_DEVICES {shown}"


def look_without_torch() -> SeenGpus:
    """Return the facts that are known without torch; only a run shows whether CUDA starts."""
    build = installed_torch()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = visible_gpus() if build.platform else 0
    return SeenGpus(count, nvidia_gpus(), build, shown, driver_version())


def nvidia_gpus(root: Path = _ROOT) -> int:
    """Return the number of NVIDIA GPUs in this machine."""
    folder = root / "proc" / "driver" / "nvidia" / "gpus"
    if folder.is_dir():
        return len(list(folder.iterdir()))
    return len(list((root / "dev").glob("nvidia[0-9]*")))


def amd_gpus(root: Path = _ROOT) -> int:
    """Return the number of AMD GPUs in this machine."""
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    return sum(_HAS_VECTOR_UNITS.search(node.read_text()) is not None for node in nodes)


def driver_version(root: Path = _ROOT) -> str:
    """Return the version of NVIDIA's driver, such as '535.104.05'; '' if it is not loaded."""
    path = root / "proc" / "driver" / "nvidia" / "version"
    if not path.is_file():
        return ""
    match = _DRIVER_VERSION.search(path.read_text())
    return match[1] if match else ""


def visible_gpus(root: Path = _ROOT, environment: Mapping[str, str] | None = None) -> int:
    """Return the number of GPUs visible to this process, from NVIDIA or else AMD."""
    if environment is None:
        environment = os.environ
    variables, count = ["CUDA_VISIBLE_DEVICES"], nvidia_gpus(root)
    if not count:
        # ROCm respects all three, including CUDA's, for programs written for CUDA.
        variables += ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"]
        count = amd_gpus(root)
    shown = [len(named_gpus(environment[name])) for name in variables if name in environment]
    return min([count, *shown])


def visibility_variable(root: Path = _ROOT) -> str:
    """Return the variable that controls the visible GPUs, which differs for AMD."""
    if amd_gpus(root) and not nvidia_gpus(root):
        return "HIP_VISIBLE_DEVICES"
    return "CUDA_VISIBLE_DEVICES"


def named_gpus(shown: str) -> list[str]:
    """Return the GPUs that a variable such as CUDA_VISIBLE_DEVICES names."""
    return [name for name in shown.split(",") if name.strip() and name.strip() != "-1"]


def usable_gpus(computing: Computing, seen: SeenGpus) -> int:
    """Return the number of GPUs that a process may choose from; 0 to use the CPU.

    Raises:
        UsageError: none can be used, although the machine has one or the settings require one.
    """
    if not computing.use_gpu:
        return 0
    if seen.count:
        return seen.count
    if computing.use_gpu == "required":
        expectation = "computing.use_gpu = 'required'"
    elif computing.gpu_ids is not None:
        expectation = f"computing.gpu_ids = {computing.gpu_ids} names GPUs"
    elif seen.on_node:
        expectation = f"this machine has {seen.on_node} NVIDIA GPU{'s' * (seen.on_node > 1)}"
    else:
        return 0
    reason, remedy = _find_obstacle(seen)
    on_cpu = "computing.use_gpu=False"
    if computing.gpu_ids is not None:
        on_cpu += " computing.gpu_ids=None"
    raise UsageError(
        f"{expectation}, but {reason}. {remedy}, or compute on the CPU with "
        f"{on_cpu}. Seen: {seen.describe()}."
    )


def choose_device(computing: Computing, local_rank: int, local_size: int, gpus: int) -> str:
    """Return 'cpu' or 'cuda:N' for the process of `local_rank` among the `local_size` of this node.

    Args:
        gpus: Number of GPUs that this process may choose from (see `usable_gpus`). If there are
            fewer GPUs than processes and none is named, each process is assumed to see its own GPU,
            as with Slurm's --gpus-per-task=1; the processes compare them later.

    Raises:
        UsageError: gpu_ids is shorter than the number of processes, names a GPU twice, or names one
            that does not exist.
    """
    if gpus == 0:
        return "cpu"
    if computing.gpu_ids is not None:
        _check_mapping(computing, computing.gpu_ids, local_size, gpus)
        return f"cuda:{computing.gpu_ids[local_rank]}"
    if local_rank < gpus:
        return f"cuda:{local_rank}"
    return "cuda:0"


def describe_mapping(computing: Computing, launch: Launch) -> list[str]:
    """Return a line for each process of this node with the device that it would use.

    Raises:
        UsageError: some process would have no device.
    """
    gpus = usable_gpus(computing, look_without_torch())
    # A single process may be a dry run of `computing.processes` processes.
    local_size = computing.processes if launch.size == 1 else launch.local_size or 1
    if launch.size == 1 and gpus and computing.gpu_ids is None:
        _check_mapping(computing, tuple(range(local_size)), local_size, gpus)
    devices = [choose_device(computing, rank, local_size, gpus) for rank in range(local_size)]
    lines = [f"local rank {rank}: {device}" for rank, device in enumerate(devices)]
    if 0 < gpus < local_size:
        lines.append(f"this process sees {gpus} of the GPUs: each process must see its own")
    notice = cpu_notice(computing, "cuda" if gpus else "cpu")
    return [*lines, *filter(None, [notice])]


def cpu_notice(computing: Computing, device_type: str) -> str:
    """Return a notice about running on the CPU for users who expect a GPU; '' if not needed."""
    if device_type != "cpu" or not computing.use_gpu:
        return ""
    return (
        "no GPU that torch can use: computing on the CPU (computing.use_gpu='required' makes this "
        "fatal, False hides this line)"
    )


def _check_mapping(computing: Computing, ids: tuple[int, ...], local_size: int, gpus: int) -> None:
    """Check that each process of the node gets a GPU of its own from `ids`."""
    highest = max(ids[:local_size], default=0)
    if len(ids) < local_size:
        mistake = f"{local_size} processes on this node, but only {len(ids)} GPUs named"
    elif len(set(ids)) < len(ids):
        mistake = "a GPU is named twice"
    elif highest >= gpus:
        mistake = f"GPU {highest} does not exist: {gpus} visible, numbered from 0"
    else:
        return
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    raise UsageError(
        f"computing.gpu_ids = {computing.gpu_ids}: {mistake} (CUDA_VISIBLE_DEVICES is {shown}). "
        "Name one GPU for each process of a node, or start fewer processes; leave it at None where "
        "each process sees a GPU of its own."
    )


def _find_obstacle(seen: SeenGpus) -> tuple[str, str]:
    """Return the first obstacle between the machine and CUDA, and a remedy."""
    build = seen.build
    if seen.other and not seen.on_node:
        reason = f"ASDF supports GPUs of NVIDIA and AMD, not {seen.other}"
        return reason, "Use another machine"
    if not seen.on_node and not build.platform.startswith("ROCm"):
        return "no NVIDIA GPU was found", f"In a job ask for one {_SLURM_OPTIONS}"
    needed = fitting_cuda(seen.driver)
    if not build.platform:
        install = f"Install a build for GPUs: {install_line(needed)}"
        reason = f"the installed torch {build.version} supports the CPU only"
        return reason, install if needed else "Update the driver"
    if seen.shown is not None and not named_gpus(seen.shown):
        reason = f"CUDA_VISIBLE_DEVICES={seen.shown!r} hides them all"
        return reason, f"Unset it, or in a job ask for a GPU {_SLURM_OPTIONS}"
    older = f"its driver {seen.driver} is older than"
    if build.platform.startswith("CUDA 13") and needed == "cu126":
        reason = f"{older} the installed torch needs (580 for CUDA 13)"
        return reason, f"Install a build for CUDA 12: {install_line(needed)}"
    if seen.driver and not needed:
        return f"{older} 525, which CUDA 12 needs", "Update the driver"
    reason = ": ".join(filter(None, ("CUDA cannot access any of them", seen.failure)))
    return reason, (
        "Check whether nvidia-smi lists them; a job must ask for a GPU, a container for --gpus all"
    )
