"""What is known of the GPUs of a machine without starting CUDA.

No torch here, so that a dry run can print the mapping of processes to GPUs at once.
`asdf.distributed.gpus` asks torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asdf.distributed.builds import Build, installed_torch

_ROOT = Path("/")
# A node of the kernel's list is a GPU if it has vector units.
_HAS_VECTOR_UNITS = re.compile(r"^simd_count [1-9]", re.MULTILINE)
_DRIVER_VERSION = re.compile(r"\s(\d+\.\d[\d.]*)\s")


@dataclass(frozen=True)
class SeenGpus:
    """What is known of the GPUs here.

    Attributes:
        count: Number of GPUs that this process can compute on.
        on_node: Number of GPUs of NVIDIA that the machine has, whether or not this process may use
            them.
        shown: CUDA_VISIBLE_DEVICES, or None if it is not set.
        driver: version of NVIDIA's driver, '' if none is loaded.
        failure: Reason that CUDA gave for not starting.
        other: GPUs that ASDF does not compute on, such as 'MPS'.
    """

    count: int
    on_node: int
    build: Build
    shown: str | None = None
    driver: str = ""
    failure: str = ""
    other: str = ""

    @property
    def hides_all(self) -> bool:
        """Whether CUDA_VISIBLE_DEVICES names no GPU."""
        return self.shown is not None and not named_gpus(self.shown)

    def describe(self) -> str:
        """Return what was seen, for a message."""
        driver = f"driver {self.driver}" if self.driver else "no driver loaded"
        shown = "not set" if self.shown is None else repr(self.shown)
        gpus = f"{self.on_node or 'no'} NVIDIA GPU{'s' * (self.on_node > 1)}, {driver}"
        return f"{gpus}, {self.build}, CUDA_VISIBLE_DEVICES {shown}"


def look_without_torch() -> SeenGpus:
    """Return what is known of the GPUs here at once; only a run finds out whether CUDA starts."""
    build = installed_torch()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = visible_gpus() if build.platform else 0
    return SeenGpus(count, nvidia_gpus(), build, shown, driver_version())


def nvidia_gpus(root: Path = _ROOT) -> int:
    """Return how many GPUs of NVIDIA this machine has."""
    folder = root / "proc" / "driver" / "nvidia" / "gpus"
    if folder.is_dir():
        return len(list(folder.iterdir()))
    return len(list((root / "dev").glob("nvidia[0-9]*")))


def amd_gpus(root: Path = _ROOT) -> int:
    """Return how many GPUs of AMD this machine has."""
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
    """Return how many GPUs this process may see, of NVIDIA or else of AMD."""
    if environment is None:
        environment = os.environ
    count = nvidia_gpus(root)
    # ROCm heeds all three: CUDA's name as well, for programs that were written for CUDA.
    variables = ["CUDA_VISIBLE_DEVICES"]
    if not count:
        count = amd_gpus(root)
        variables += ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"]
    for name in variables:
        if name in environment:
            count = min(count, len(named_gpus(environment[name])))
    return count


def visibility_variable(root: Path = _ROOT) -> str:
    """Return the variable that decides which GPUs a program sees; AMD has one of its own."""
    if amd_gpus(root) and not nvidia_gpus(root):
        return "HIP_VISIBLE_DEVICES"
    return "CUDA_VISIBLE_DEVICES"


def named_gpus(shown: str) -> list[str]:
    """Return the GPUs that a variable such as CUDA_VISIBLE_DEVICES names."""
    return [name for name in shown.split(",") if name.strip() and name.strip() != "-1"]
