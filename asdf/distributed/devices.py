"""Which device a process computes on: `gpu_ids[local rank]`, of what CUDA_VISIBLE_DEVICES shows.

The local rank counts, never the global one: on several nodes each node has its own GPU 0.
Invariant: a run computes on the CPU only where that was asked for, or where no GPU is. No torch
here, so that a dry run can print the mapping at once; `asdf.distributed.gpus` is where torch is
asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asdf.distributed.builds import Build, fitting_cuda, install_line, installed_torch
from asdf.distributed.launchers import Launch
from asdf.errors import UsageError
from asdf.settings.sections import Computing

_ROOT = Path("/")


@dataclass(frozen=True)
class SeenGpus:
    """What is known of the GPUs here.

    Attributes:
        count: how many this process can compute on.
        on_node: how many GPUs of NVIDIA the machine has, whether or not this process may use them.
        shown: CUDA_VISIBLE_DEVICES, or None where it is not set.
        driver: version of NVIDIA's driver, '' where there is none.
        failure: what CUDA said when it did not start.
        other: GPUs that ASDF does not compute on, such as 'MPS'.
    """

    count: int
    on_node: int
    build: Build
    shown: str | None = None
    driver: str = ""
    failure: str = ""
    other: str = ""


def nvidia_gpus(root: Path = _ROOT) -> int:
    """How many GPUs of NVIDIA this machine has, without starting CUDA."""
    folder = root / "proc" / "driver" / "nvidia" / "gpus"
    if folder.is_dir():
        return len(list(folder.iterdir()))
    return len(list((root / "dev").glob("nvidia[0-9]*")))


def amd_gpus(root: Path = _ROOT) -> int:
    """How many GPUs of AMD this machine has: the nodes of its list that have vector units."""
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    return sum(
        re.search(r"^simd_count [1-9]", node.read_text(), re.M) is not None for node in nodes
    )


def driver_version(root: Path = _ROOT) -> str:
    """The version of NVIDIA's driver, such as '535.104.05'; '' where it is not loaded."""
    path = root / "proc" / "driver" / "nvidia" / "version"
    match = re.search(r"\s(\d+\.\d[\d.]*)\s", path.read_text() if path.is_file() else "")
    return match[1] if match else ""


def visible_gpus(root: Path = _ROOT, environment: Mapping[str, str] | None = None) -> int:
    """How many GPUs this process may see, of NVIDIA or else of AMD, without starting CUDA."""
    environment = os.environ if environment is None else environment
    count, variables = nvidia_gpus(root), ["CUDA_VISIBLE_DEVICES"]
    if not count:
        count = amd_gpus(root)
        variables += ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"]
    shown = [environment[name] for name in variables if name in environment]
    return min([count, *(len(_named(names)) for names in shown)])


def visibility_variable(root: Path = _ROOT) -> str:
    """The variable that decides which GPUs a program sees; AMD has one of its own."""
    only_amd = not nvidia_gpus(root) and amd_gpus(root)
    return "HIP_VISIBLE_DEVICES" if only_amd else "CUDA_VISIBLE_DEVICES"


def look_without_torch() -> SeenGpus:
    """What can be known of the GPUs here at once: whether CUDA starts is seen by a run only."""
    build = installed_torch()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = visible_gpus() if build.platform else 0
    return SeenGpus(count, nvidia_gpus(), build, shown, driver_version())


def usable_gpus(computing: Computing, seen: SeenGpus) -> int:
    """How many GPUs a process may choose from; 0: it computes on the CPU.

    Raises:
        UsageError: there is none for it, although the machine has one, or the settings ask for one.
    """
    if not computing.use_gpu or seen.count:
        return seen.count if computing.use_gpu else 0
    if computing.use_gpu == "required":
        lead = "computing.use_gpu = 'required'"
    elif computing.gpu_ids is not None:
        lead = f"computing.gpu_ids = {computing.gpu_ids} names GPUs"
    elif seen.on_node:
        lead = f"this machine has {seen.on_node} NVIDIA GPU{'s' * (seen.on_node > 1)}"
    else:
        return 0
    reason, cure = _explain(seen)
    raise UsageError(
        f"{lead}, but {reason}. {cure}, or compute on the CPU with computing.use_gpu=False"
        f"{' computing.gpu_ids=None' * (computing.gpu_ids is not None)}. Seen: {_describe(seen)}."
    )


def choose_device(computing: Computing, local_rank: int, local_size: int, gpus: int) -> str:
    """'cpu' or 'cuda:N' for the process of `local_rank` among the `local_size` of this node.

    Args:
        gpus: number of GPUs that this process may choose from (see `usable_gpus`). Where those are
            fewer than processes and none is named, each is taken to see GPUs of its own, as Slurm's
            --gpus-per-task=1 shows them; whether that is so is seen when the processes compare
            them.

    Raises:
        UsageError: gpu_ids is shorter than the number of processes, or names a GPU twice or one
            that is not there.
    """
    if gpus == 0:
        return "cpu"
    if computing.gpu_ids is None:
        return f"cuda:{local_rank if local_rank < gpus else 0}"
    _check_mapping(computing, computing.gpu_ids, local_size, gpus)
    return f"cuda:{computing.gpu_ids[local_rank]}"


def describe_mapping(computing: Computing, launch: Launch) -> list[str]:
    """One line for each process of this node: the device that it would use.

    Raises:
        UsageError: they would not all have one.
    """
    seen = look_without_torch()
    gpus = usable_gpus(computing, seen)
    local_size = computing.processes if launch.size == 1 else launch.local_size or 1
    if launch.size == 1 and gpus and computing.gpu_ids is None:
        _check_mapping(computing, tuple(range(local_size)), local_size, gpus)
    lines = [
        f"local rank {rank}: {choose_device(computing, rank, local_size, gpus)}"
        for rank in range(local_size)
    ]
    if 0 < gpus < local_size:
        lines.append(f"(this process sees {gpus} of the GPUs: each has to see its own)")
    notice = cpu_notice(computing, "cpu" if gpus == 0 else "cuda")
    return [*lines, f"({notice})"] if notice else lines


def cpu_notice(computing: Computing, device_type: str) -> str:
    """What a user who expects a GPU has to know of a run on the CPU; '' where that is nothing."""
    if device_type != "cpu" or not computing.use_gpu:
        return ""
    return (
        "no GPU here that torch can use: computing on the CPU "
        "(computing.use_gpu='required' refuses that, False leaves this line out)"
    )


def check_one_process(computing: Computing, processes: int) -> None:
    """Refuse what cannot be captured in one process alone.

    Raises:
        UsageError: there are several.
    """
    if computing.cuda_graphs and processes > 1:
        raise UsageError(
            f"computing.cuda_graphs = True and {processes} processes do not go together: where one process fails, the "
            "others would wait without end inside a graph. Set computing.cuda_graphs = False, or train with one "
            "process."
        )


def _check_mapping(computing: Computing, ids: tuple[int, ...], local_size: int, gpus: int) -> None:
    mistake = ""
    if len(ids) < local_size:
        mistake = f"{local_size} processes on this node, but only {len(ids)} GPUs named"
    elif len(set(ids)) < len(ids):
        mistake = "a GPU is named twice"
    elif max(ids[:local_size]) >= gpus:
        mistake = f"GPU {max(ids[:local_size])} is not there: {gpus} visible, numbered from 0"
    if mistake:
        mapping = ", ".join(f"local rank {r} -> {_gpu(ids, r)}" for r in range(local_size))
        shown = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        raise UsageError(
            f"computing.gpu_ids = {computing.gpu_ids}: {mistake}. The mapping would have been: "
            f"{mapping} (CUDA_VISIBLE_DEVICES is {shown}). Name one GPU for each process of a "
            "node, or start fewer processes; leave computing.gpu_ids at None where each process "
            "sees a GPU of its own."
        )


def _explain(seen: SeenGpus) -> tuple[str, str]:
    """Why no GPU can be used, and what to do about it."""
    if seen.other and not seen.on_node:
        return (
            f"ASDF computes on GPUs of NVIDIA and AMD, not on {seen.other}",
            "Use another machine",
        )
    if not seen.on_node and not seen.build.platform.startswith("ROCm"):
        return "no NVIDIA GPU is here", "In a job ask for one (Slurm: --gres=gpu:1 or --gpus=1)"
    if not seen.build.platform:
        cuda = fitting_cuda(seen.driver)
        cure = f"Install a build for GPUs: {install_line(cuda)}" if cuda else "Update the driver"
        return f"the installed torch {seen.build.version} computes on the CPU only", cure
    if seen.shown is not None and not _named(seen.shown):
        cure = "Unset it, or in a job ask for a GPU (Slurm: --gres=gpu:1 or --gpus=1)"
        return f"CUDA_VISIBLE_DEVICES={seen.shown!r} hides them all", cure
    needed = fitting_cuda(seen.driver)
    if seen.build.platform.startswith("CUDA 13") and needed == "cu126":
        reason = (
            f"its driver {seen.driver} is older than the installed torch needs (580 for CUDA 13)"
        )
        return reason, f"Install a build for CUDA 12: {install_line(needed)}"
    if seen.driver and not needed:
        return (
            f"its driver {seen.driver} is older than 525, which CUDA 12 needs",
            "Update the driver",
        )
    said = f": {seen.failure}" if seen.failure else ""
    cure = (
        "See whether nvidia-smi lists them; a job has to ask for a GPU, a container for --gpus all"
    )
    return f"CUDA does not reach any of them{said}", cure


def _describe(seen: SeenGpus) -> str:
    driver = f"driver {seen.driver}" if seen.driver else "no driver loaded"
    shown = "not set" if seen.shown is None else repr(seen.shown)
    gpus = f"{seen.on_node or 'no'} NVIDIA GPU{'s' * (seen.on_node > 1)}, {driver}"
    return f"{gpus}, {seen.build}, CUDA_VISIBLE_DEVICES {shown}"


def _named(shown: str) -> list[str]:
    """The GPUs that a variable such as CUDA_VISIBLE_DEVICES names."""
    return [name for name in shown.split(",") if name.strip() and name.strip() != "-1"]


def _gpu(ids: tuple[int, ...], rank: int) -> str:
    return f"cuda:{ids[rank]}" if rank < len(ids) else "nothing"
