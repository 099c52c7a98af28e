"""What the installed torch was built for, which GPUs that serves, and how to install another.

No torch here: it is read from the installed files, so that a dry run can ask at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from asdf.errors import UsageError

# Versions of torch and torchaudio that load together.
TORCH_PAIR = "'torch>=2.11,<2.15' 'torchaudio==2.11.*'"
# PyTorch's support matrix for torch 2.9 to 2.14 on x86: the CUDA 12.6 builds have kernels for 5.0
# to 9.0, those of CUDA 13 for 7.5 to 12.0. The CUDA 12.8 builds of 2.9 and 2.10 alone have those
# for 7.0 as well; 2.15 drops 12.6.
_OLDEST, _OLDEST_OF_CUDA_13 = (5, 0), (7, 5)
# The first drivers of NVIDIA that run programs of CUDA 13 and 12.
_DRIVERS = ((580, "cu130"), (525, "cu126"))


@dataclass(frozen=True)
class Build:
    """A build of torch. `platform` is 'CUDA 13.0', 'ROCm 6.4', or '' for one without GPUs."""

    version: str
    platform: str

    def __str__(self) -> str:
        return f"torch {self.version} ({self.platform or 'for the CPU only'})"


def installed_torch() -> Build:
    """The build of torch that `import torch` would load."""
    spec = find_spec("torch")
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        path = Path(folder) / "version.py"
        if path.is_file():
            return read_build(path.read_text(encoding="utf-8"))
    return Build("", "")


def read_build(text: str) -> Build:
    """The build that torch's `version.py` describes."""
    values = dict(re.findall(r"^(\w+)\b[^=\n]*= *'([^'\n]*)'", text, re.MULTILINE))
    names = {"CUDA": values.get("cuda"), "ROCm": values.get("hip")}
    platforms = [f"{name} {number}" for name, number in names.items() if number]
    return Build(values.get("__version__", ""), "".join(platforms[:1]))


def install_line(cuda: str) -> str:
    """The command that replaces torch by a build for `cuda`, such as 'cu126'."""
    index = f"https://download.pytorch.org/whl/{cuda}"
    return f"pip install --force-reinstall {TORCH_PAIR} --index-url {index}"


def fitting_cuda(driver: str) -> str:
    """The newest CUDA whose torch a driver such as '535.104.05' runs; '' where there is none."""
    major = int(driver.partition(".")[0]) if driver[:1].isdecimal() else _DRIVERS[0][0]
    return next((cuda for oldest, cuda in _DRIVERS if major >= oldest), "")


def has_kernels(capability: tuple[int, int], kernels: Sequence[str]) -> bool:
    """Whether a GPU can run what torch was built of.

    Args:
        capability: the GPU's compute capability, such as (7, 0).
        kernels: `torch.cuda.get_arch_list()`. Machine code (sm_XY) runs on GPUs of the same X and
            at least Y, code for a virtual GPU (compute_XY) on all from X.Y on, and either with the
            letter a on X.Y alone.
    """
    for kernel in kernels:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", kernel)
        if match is None:
            return True  # another maker's GPU: its own software checks
        kind, major, minor, letter = match.groups()
        built_for = (int(major), int(minor))
        same_major = capability[0] == built_for[0]
        if built_for == capability or (
            letter != "a" and capability > built_for and (kind == "compute" or same_major)
        ):
            return True
    return not kernels


def check_kernels(
    gpu: str, capability: tuple[int, int], kernels: Sequence[str], build: Build
) -> None:
    """Refuse a GPU that the installed torch has no kernels for: each would fail at its first use.

    Args:
        gpu: its name, for the message.
        capability, kernels: see `has_kernels`.

    Raises:
        UsageError: it has none; says which build has them.
    """
    if has_kernels(capability, kernels):
        return
    cure = "No build of torch 2.9 or newer has them"
    if capability >= _OLDEST:
        cuda = "cu126" if capability < _OLDEST_OF_CUDA_13 else "cu130"
        which = "CUDA 12.6" if cuda == "cu126" else "CUDA 13.0"
        cure = f"The builds for {which} have them: {install_line(cuda)}"
    raise UsageError(
        f"{gpu} has compute capability {capability[0]}.{capability[1]}, and the installed {build} "
        f"has kernels for {', '.join(kernels)} only. {cure}; or compute on the CPU with "
        "computing.use_gpu=False."
    )
