"""The build of the installed torch, the GPUs that it supports, and how to install another.

This does not use torch: the installed files are read, so that a dry run need not import it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from asdf.errors import UsageError

# Compatible versions of torch and torchaudio.
TORCH_PAIR = "'torch>=2.11,<2.15' 'torchaudio==2.11.*'"
# PyTorch's support matrix for torch 2.9 to 2.14 on x86: the CUDA 12.6 builds have kernels for 5.0
# to 9.0, those of CUDA 13 for 7.5 to 12.0. Of the CUDA 12.8 builds, only those of 2.9 and 2.10
# support 7.0; 2.15 drops 12.6.
_OLDEST = (5, 0)
_OLDEST_OF_CUDA_13 = (7, 5)
# The first NVIDIA drivers that support CUDA 13 and 12.
_DRIVERS = ((580, "cu130"), (525, "cu126"))


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
    if spec is None:
        return Build("", "")
    for folder in spec.submodule_search_locations or []:
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
    if not kernels:
        return True
    return any(_runs_kernel(capability, kernel) for kernel in kernels)


def _runs_kernel(capability: tuple[int, int], kernel: str) -> bool:
    """Return whether a GPU runs a kernel such as 'sm_80'.

    Machine code (sm_XY) runs on GPUs with the same X and at least Y, code for a virtual GPU
    (compute_XY) on all from X.Y on, and either with the letter a only on X.Y.
    """
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", kernel)
    if match is None:
        return True  # another maker's GPU: its own software checks
    kind, major, minor, letter = match.groups()
    built_for = (int(major), int(minor))
    if capability == built_for:
        return True
    if letter == "a" or capability < built_for:
        return False
    return kind == "compute" or capability[0] == built_for[0]


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
