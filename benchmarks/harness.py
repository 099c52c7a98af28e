"""Timing: alternating measurements in one run, after a warm-up.

Invariant: compared functions are measured as A B A B ..., so that a slowdown of the machine affects
both, and a ratio is computed within a pair. Garbage is collected before each measurement and not
during it.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_text

# Characters of a failed process's output: torchrun's own message follows those of its processes.
_SHOWN = 8000
_TORCHRUNS_OWN = ("ChildFailedError", "error_file")
ROOT = Path(__file__).resolve().parents[1]


def in_turns(
    functions: Mapping[str, Callable[[], Any]],
    rounds: int,
    warm_up: int = 1,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Time each function in rounds; return seconds per call, with `calls` calls per measurement.

    Args:
        clock: Function that returns seconds; `time.process_time` counts this process's time on all
            cores, excluding that of other processes.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(warm_up + rounds):
        for name, function in functions.items():
            taken = seconds_of(function, calls, clock)
            if turn >= warm_up:
                seconds[name].append(taken)
    return seconds


def seconds_of(
    function: Callable[[], Any], calls: int = 1, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of a call, including the GPU's work."""
    with _no_collection():
        _wait_for_gpu()
        start = clock()
        for _ in range(calls):
            function()
        _wait_for_gpu()
        return (clock() - start) / calls


def run_module(module: str, *words: str, processes: int = 1, **variables: str) -> str:
    """Return the last line that `python -m module words...` prints, in a separate process.

    Args:
        processes: Number of processes; several are started by torchrun.

    Raises:
        RuntimeError: it failed; the message has the end of its output.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    launcher = torchrun if processes > 1 else []
    command = [sys.executable, *launcher, "-m", module, *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-_SHOWN:]}")
    return done.stdout.strip().splitlines()[-1]


def run_world(
    module: str, size: int, *words: object, worlds: int = 1, **variables: str
) -> list[str]:
    """Run `python -m module words...` in `size` processes that communicate with gloo.

    Args:
        worlds: Number of independent worlds at a time.

    Returns:
        Last line that the first process of each world prints.

    Raises:
        RuntimeError: a process failed; its message is above.
    """
    started = [_start_world(module, size, words, variables) for _ in range(worlds)]
    lines = []
    for processes in started:
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            raise RuntimeError(f"a process of {size} failed; its message is above")
        lines.append(outputs[0].strip().splitlines()[-1])
    return lines


def _start_world(
    module: str, size: int, words: Sequence[object], variables: Mapping[str, str]
) -> list[subprocess.Popen[str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    shared = {**os.environ, **world, "MASTER_PORT": str(port), **variables}
    processes = []
    for rank in range(size):
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)],
            cwd=ROOT,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
    return processes


def error_line(output: str) -> str:
    """Return the last error in a failed process's output that is not torchrun's own."""
    lines = [line.strip() for line in output.splitlines() if line.strip(" =-\n")]
    errors = [
        line
        for line in lines
        if re.search(r"error: |Error: ", line) and not any(own in line for own in _TORCHRUNS_OWN)
    ]
    return (errors or lines or ["nothing was printed"])[-1]


def write_between(path: Path, begin: str, end: str, text: str) -> None:
    """Write `text` between two marks in the page `path`.

    Raises:
        AsdfError: the page lacks the marks.
    """
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise AsdfError(
            f"{path} lacks the lines {begin!r} and {end!r}, between which the table is put."
        )
    write_text(path, f"{before}{begin}\n\n{text}\n\n{end}{after}")


def has(*packages: str) -> bool:
    """Whether all of these packages can be imported."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def log_line(line: str) -> None:
    """Print the progress without disturbing the table."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _wait_for_gpu() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
