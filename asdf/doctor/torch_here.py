"""Checks of torch, torchaudio, the GPUs, and the requirements for compiling."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.distributed.builds import TORCH_PAIR, check_kernels, installed_torch
from asdf.distributed.devices import usable_gpus
from asdf.doctor.finding import MISSING, OK, WARNING, Finding, Step
from asdf.errors import UsageError
from asdf.settings.sections import Computing

if TYPE_CHECKING:
    import torch

_OLDEST = (2, 9)
_NEWEST = (2, 14)
_PAIR = f"pip install --force-reinstall {TORCH_PAIR}"
_GIB = 2**30
# If less memory is free, another program uses the GPU.
_MOSTLY_FREE = 0.5
# A product of matrices of ones and halves is exact in any order of summation.
_SIZE = 64


def steps() -> Sequence[Step]:
    """Return the steps of this group; the first one imports torch."""
    driver = "Check whether nvidia-smi works; if not, restart the machine or the job"
    return [
        Step("torch", look_at_torch, _PAIR),
        Step("torchaudio", look_at_torchaudio, _PAIR),
        Step("GPU", look_at_gpus, driver),
        Step("compiling", look_at_compiling, "Leave computing.compile at False", failed=WARNING),
    ]


def look_at_torch() -> Iterable[Finding]:
    """Yield the version of torch, and whether it computes on the CPU."""
    build = installed_torch()
    if not build.version:
        yield Finding("torch", MISSING, "not installed", f"pip install {TORCH_PAIR}")
        return
    import torch

    if float(_multiply(torch.device("cpu"))) != _expected():
        yield Finding("torch", MISSING, f"{build} computes wrong values on the CPU", _PAIR)
        return
    release = tuple(map(int, build.version.split("+")[0].split(".")[:2]))
    if not _OLDEST <= release <= _NEWEST:
        text = f"{build}: ASDF is tested with 2.9 to 2.14"
        yield Finding("torch", WARNING, text, _PAIR)
        return
    yield Finding("torch", OK, str(build))


def look_at_torchaudio() -> Iterable[Finding]:
    """Yield whether torchaudio can be imported together with torch."""
    import torchaudio

    yield Finding("torchaudio", OK, str(torchaudio.__version__))


def look_at_gpus() -> Iterable[Finding]:
    """Yield each GPU with its properties and a test, or why none can be used."""
    import torch

    from asdf.distributed.gpus import look_at_gpus as look

    seen = look()
    try:
        count = usable_gpus(Computing(), seen)
    except UsageError as error:
        yield Finding("GPU", MISSING, str(error))
        return
    if not count:
        text = f"none: computing on the CPU. Detected: {seen.describe()}"
        mend = "In a Slurm job request one (--gres=gpu:1); elsewhere check whether nvidia-smi "
        yield Finding("GPU", WARNING, text, f"{mend}lists one, a container needs --gpus all")
        return
    if seen.driver:
        yield Finding("driver", OK, seen.driver)
    for number in range(count):
        yield _look_at_gpu(torch.device("cuda", number))
    if count > 1 and torch.distributed.is_nccl_available():
        yield Finding("NCCL", OK, ".".join(map(str, torch.cuda.nccl.version())))
    elif count > 1:
        text = "this torch has none: several GPUs cannot train together"
        yield Finding("NCCL", MISSING, text, _PAIR)


def _look_at_gpu(device: torch.device) -> Finding:
    """Return the properties of a GPU, after a small computation on it."""
    import torch

    name = f"GPU {device.index}"
    properties = torch.cuda.get_device_properties(device)
    capability = (properties.major, properties.minor)
    kernels = torch.cuda.get_arch_list()
    try:
        check_kernels(properties.name, capability, kernels, installed_torch())
    except UsageError as error:
        return Finding(name, MISSING, str(error))
    free, total = torch.cuda.mem_get_info(device)
    text = (
        f"{properties.name}, compute capability {capability[0]}.{capability[1]}, "
        f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
    )
    if float(_multiply(device)) != _expected():
        mend = "Compare with nvidia-smi -q (ECC errors); use another GPU (CUDA_VISIBLE_DEVICES)"
        return Finding(name, MISSING, f"{text}: it computes wrong values", mend)
    if free < _MOSTLY_FREE * total:
        mend = "nvidia-smi lists the programs; choose a GPU with CUDA_VISIBLE_DEVICES"
        return Finding(name, WARNING, f"{text}: another program computes on it", mend)
    return Finding(name, OK, text)


def _multiply(device: torch.device) -> torch.Tensor:
    """Return the sum of the gradient of a product of matrices of halves."""
    import torch

    left = torch.full((_SIZE, _SIZE), 0.5, device=device, requires_grad=True)
    product = left @ torch.full((_SIZE, _SIZE), 0.5, device=device)
    product.sum().backward()
    assert left.grad is not None
    return left.grad.sum()


def _expected() -> float:
    # Each of SIZE x SIZE entries is a sum of SIZE halves.
    return 0.5 * _SIZE**3


def look_at_compiling() -> Iterable[Finding]:
    """Yield whether the requirements of computing.compile are met."""
    import torch

    lacking = []
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        lacking.append(f"a C++ compiler ({compiler})")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        lacking.append("Python's headers (python3-dev)")
    if torch.cuda.is_available() and find_spec("triton") is None:
        lacking.append("Triton (pip install triton)")
    if lacking:
        text = f"computing.compile=True would fail: {', '.join(lacking)} missing"
        mend = "Install it, or leave computing.compile at False, the default"
        yield Finding("compiling", WARNING, text, mend)
        return
    yield Finding("compiling", OK, "computing.compile can be used")
