"""Several GPUs of a node: speed, scores, batch norm, and the effect of a killed process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace

from benchmarks.gpu.cases import case_of, measure
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.killing import STEP
from benchmarks.gpu.recipes import QuickstartRuns, last_line
from benchmarks.gpu.resume import RUN
from benchmarks.gpu.scoring import score
from benchmarks.gpu.steps import lines_of
from benchmarks.gpu.verdict import Line, at_least, at_most, equal, measured, not_run
from benchmarks.harness import run_module

EFFICIENCY = 0.9
NORM_LIMIT = 1e-5
# Maximum time for all processes to end after one was killed; torchrun waits 30 s.
END_LIMIT_S = 60.0


def speed(setup: Setup) -> Iterable[Line]:
    """Utterances/s of two and of all GPUs, next to that many times one."""
    if setup.gpus < 2:
        yield _needs_two("efficiency of several GPUs")
        return
    alone = measure(case_of(setup)).utterances_per_s
    for gpus in sorted({2, setup.gpus}):
        result = measure(case_of(setup), processes=gpus)
        yield from lines_of(f"{gpus} GPUs", replace(result, is_xlsr_aasist=False))
        what, share = f"{gpus} GPUs: efficiency", result.utterances_per_s / (gpus * alone)
        yield measured(what, share) if setup.quick else at_least(what, share, EFFICIENCY)


def scores(setup: Setup) -> Iterable[Line]:
    """The score file of all GPUs and that of one."""
    what = "1 GPU and all GPUs write the same score file"
    if setup.gpus < 2:
        yield _needs_two(what)
        return
    _, alone = score(setup, "one GPU")
    _, together = score(setup, "all GPUs", processes=setup.gpus)
    yield equal(what, "same bytes" if alone == together else "other bytes", "same bytes")


def batch_norm(setup: Setup) -> Iterable[Line]:
    """Our batch norm over two GPUs next to torch's SyncBatchNorm."""
    what = "batch norm over 2 GPUs: difference from torch's"
    if setup.gpus < 2:
        yield _needs_two(what)
        return
    result = json.loads(run_module("benchmarks.gpu.norms", processes=2))
    for part, difference in result["differences"].items():
        yield at_most(f"{what}, {part}", difference, NORM_LIMIT)
    yield measured(
        "batch norm over 2 GPUs", result["ms"], "ms", f"torch's {result['torch_ms']:.2f} ms"
    )


def killed(setup: Setup) -> Iterable[Line]:
    """One process is killed in training: the others end, and say why."""
    what = "one process killed: all have ended after"
    if setup.gpus < 2:
        yield _needs_two(what)
        return
    runs, began = QuickstartRuns(setup, "killed rank"), time.monotonic()
    whole = runs.run("whole", RUN, processes=2)
    needed, began = time.monotonic() - began, time.monotonic()
    run = runs.run("killed", RUN, processes=2, variables={STEP: "3"})
    seconds = max(0.0, time.monotonic() - began - needed)
    reason = f"beyond a whole run's {needed:.0f} s; it says: {last_line(run)}"
    yield at_most(what, seconds, END_LIMIT_S, "s", reason)
    statuses = f"whole {whole.status}, killed {'0' if run.status == 0 else 'not 0'}"
    yield equal("exit status of torchrun", statuses, "whole 0, killed not 0")


def _needs_two(what: str) -> Line:
    return not_run(what, "it needs two GPUs")


CHECKS: dict[str, Check] = {
    "speed": speed,
    "scores": scores,
    "batch norm": batch_norm,
    "killed": killed,
}
