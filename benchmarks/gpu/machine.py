"""Description of the machine, and whether the installed torch has kernels for it.

`python -m benchmarks.gpu.machine` prints the machine as JSON in a separate process, because asking
for a GPU's name uses the GPU; if only one process at a time may use it, that must be the process of
a check.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import torch

from asdf.distributed.devices import has_kernels, install_line
from asdf.distributed.gpus import library_versions
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.peaks import peak_flops
from benchmarks.gpu.verdict import Line, failed, measured, not_run, stated
from benchmarks.harness import run_module
from benchmarks.machine import describe_machine, headline

_CLOCKS = "clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu,utilization.gpu"
_LEAST_FREE = 0.9


def describe() -> dict[str, Any]:
    """Return the machine as plain values, without identifying information."""
    machine: dict[str, Any] = json.loads(run_module("benchmarks.gpu.machine"))
    git = machine["git"] or {}
    machine["git"] = {"commit": git.get("commit"), "changed": len(git.get("changed", ()))}
    machine["line"] = headline(machine)
    return machine


def versions(setup: Setup) -> Iterable[Line]:
    """Versions of all that computes."""
    yield stated("torch", torch.__version__)
    for name, version in library_versions(torch.device("cuda", 0)).items():
        yield stated(name, version) if version else not_run(name, "its version cannot be asked for")


def kernels(setup: Setup) -> Iterable[Line]:
    """Whether each GPU can run what torch was built of."""
    built = torch.cuda.get_arch_list()
    for number in range(setup.gpus):
        properties = torch.cuda.get_device_properties(number)
        capability = (properties.major, properties.minor)
        what = f"torch has kernels for GPU {number}, {properties.name}"
        result = f"{capability[0]}.{capability[1]} in {' '.join(built)}"
        if has_kernels(capability, built):
            yield stated(what, result)
        else:
            yield failed(what, f"{result}: {install_line('cu126')}")


def memory_of_gpus(setup: Setup) -> Iterable[Line]:
    """Memory of each GPU, and whether it is free for the checks."""
    for number in range(setup.gpus):
        free, total = torch.cuda.mem_get_info(number)
        reason = "" if free > _LEAST_FREE * total else "another program uses it: times will be off"
        yield measured(
            f"GPU {number}, free memory of {total / 2**30:.1f}", free / 2**30, "GiB", reason
        )


def clocks(setup: Setup) -> Iterable[Line]:
    """Clocks and power limit, as the driver's own program says."""
    program = shutil.which("nvidia-smi")
    if program is None:
        yield not_run("clocks", "nvidia-smi is not there")
        return
    command = [program, f"--query-gpu={_CLOCKS}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15)
    if done.returncode:
        yield not_run("clocks", f"nvidia-smi ended with status {done.returncode}")
        return
    for number, line in enumerate(done.stdout.strip().splitlines()):
        yield stated(f"GPU {number}: {_CLOCKS}", line)


def peak(setup: Setup) -> Iterable[Line]:
    """What the GPU multiplies at best."""
    name, what = torch.cuda.get_device_name(0), "peak for MFU"
    flops = peak_flops(name, "bf16") or peak_flops(name, "fp16")
    if flops is None:
        yield not_run(what, f"{name} is not in the table of benchmarks/gpu/peaks.py")
    else:
        yield measured(what, flops / 1e12, "TFLOP/s")


CHECKS: dict[str, Check] = {
    "versions": versions,
    "kernels": kernels,
    "memory": memory_of_gpus,
    "clocks": clocks,
    "peak": peak,
}


if __name__ == "__main__":
    print(json.dumps(describe_machine()), flush=True)
    os._exit(0)
