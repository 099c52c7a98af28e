"""Compiles the null GPU, and says what is missing for it.

python -m tests.gpu.null_gpu.build NUMBER COMMAND [ARGUMENT ...]     runs a command on so many
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
RUNTIME = "libnullgpu.so"
DRIVER = "libcuda.so.1"

_BODIES = {
    "": "(void) { return 0; }",
    "call": "(const struct handle *handle) { return count_call(handle); }",
    "collective": "(void) { count(COUNT_collectives, 1); return 0; }",
}


def missing() -> str:
    """Why there can be no null GPU here; '' where there can."""
    import torch

    if not (torch.version.cuda or "").startswith("13."):
        return f"torch {torch.__version__} was not built with CUDA 13"
    if _headers() is None:
        return "no CUDA headers: triton is not installed"
    if shutil.which("gcc") is None and not (_folder() / RUNTIME).exists():
        return "no gcc"
    return ""


def variables(count: int = 1, capability: int = 90, gigabytes: int = 85) -> dict[str, str]:
    """The environment of a program that is to see `count` null GPUs, which are compiled if need be.

    Args:
        capability: compute capability times ten.
        gigabytes: memory of each.
    """
    folder = _build()
    return {
        "LD_PRELOAD": str(folder / RUNTIME),
        "LD_LIBRARY_PATH": str(folder),
        # Ordinary tests hide GPUs.
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count))),
        "NULL_GPU_COUNT": str(count),
        "NULL_GPU_CAPABILITY": str(capability),
        "NULL_GPU_GIGABYTES": str(gigabytes),
    }


def _build() -> Path:
    """The folder with the compiled libraries."""
    folder = _folder()
    if (folder / RUNTIME).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder), tempfile.TemporaryDirectory(dir=folder) as unfinished:
        if (folder / RUNTIME).exists():
            return folder
        work = Path(unfinished)
        stubs = _stubs()
        (work / "runtime_stubs.c").write_text(
            '#include "null_gpu.h"\n'
            + "".join(stub for name, stub in stubs if not _is_driver(name))
        )
        (work / "driver_stubs.c").write_text(
            "".join(stub for name, stub in stubs if _is_driver(name))
        )
        parts = [str(path) for path in _sources() if path.suffix == ".c" and path.stem != "driver"]
        _compile(work / DRIVER, [str(HERE / "driver.c"), str(work / "driver_stubs.c")])
        _compile(work / RUNTIME, [*parts, str(work / "runtime_stubs.c")])
        # The runtime last: where it is, all is there.
        (work / DRIVER).replace(folder / DRIVER)
        (work / RUNTIME).replace(folder / RUNTIME)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time build: test workers come all at once, and wait for the first."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(library: Path, sources: list[str]) -> None:
    options = ["-O1", "-fPIC", "-shared", f"-Wl,-soname,{library.name}"]
    folders = [f"-I{HERE}", f"-isystem{_headers()}"]
    command = ["gcc", *options, *folders, *sources, "-o", str(library), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)


def _stubs() -> list[tuple[str, str]]:
    """Names in names.txt, and their functions in C."""
    stubs = []
    for line in (HERE / "names.txt").read_text().splitlines():
        name, _, counted = line.partition(" ")
        if name and name != "#":
            stubs.append((name, f"int {name}{_BODIES[counted]}\n"))
    return stubs


def _is_driver(name: str) -> bool:
    return name.startswith("cu") and name[2].isupper()


def _sources() -> list[Path]:
    return sorted(path for path in HERE.iterdir() if path.suffix in (".c", ".h", ".txt"))


def _folder() -> Path:
    """A folder of this version of the sources."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources()))
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "asdf-null-gpu" / digest.hexdigest()[:16]


def _headers() -> Path | None:
    """The folder of `cuda_runtime_api.h`: triton has the headers of its torch's CUDA."""
    triton = importlib.util.find_spec("triton")
    for place in (triton.submodule_search_locations if triton else None) or []:
        folder = Path(place) / "backends" / "nvidia" / "include"
        if (folder / "cuda_runtime_api.h").exists():
            return folder
    return None


if __name__ == "__main__":
    number, *command = sys.argv[1:]
    sys.exit(subprocess.run(command, env={**os.environ, **variables(int(number))}).returncode)
