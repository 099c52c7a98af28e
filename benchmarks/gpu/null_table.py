"""The saved counts of `gpu-counts`, for comparison in checks and for RESULTS.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asdf.runs.files import write_text

HERE = Path(__file__).parent
NOW, BEFORE = HERE / "counts.json", HERE / "counts_0.1.json"
GRAPHS = "CUDA graphs"
_GIB = 2**30
SCORING = {
    "list": "a scored list",
    "detector": "2 batches of the Detector",
    "features": "3 batches of the feature pass",
}
_BEGIN = "<!-- counted by benchmarks/gpu/null_counts.py -->"
_END = "<!-- end of what was counted -->"
_ABOUT = """
**Counted without a GPU.** The program ran on `tests/gpu/null_gpu`, CUDA devices that compute
nothing: these are counts of what the host does, not times of a GPU. At a wait the host stands still
until the device has done its work; operations are what the host queues on the device (a call of
cuDNN or cuBLAS counts as one, and may be several kernels); the peak is that of torch's allocator,
without cuDNN's workspaces. Networks have a tiny front end and 2 clips of 4 s per GPU, those of
XLS-R 300M 14 clips, with bf16 and Adam unless stated. Version 0.1 had no CUDA graphs, and its
AASIST on 2 GPUs could not be counted: torch's SyncBatchNorm looks at values there. `python -m
benchmarks gpu-counts --write` writes this.
"""
_NOT_MEASURED_ABOUT = """
What one GPU has measured stands above. `python -m benchmarks gpu` measures these lines (see
CONTRIBUTING.md).
"""
NOT_MEASURED = (
    "trials/s of scoring in fp32, TF32 and bf16; the EER in each beside the CPU's",
    "utterances/s of several GPUs, and their score files beside one GPU's",
)


def saved_count(name: str, kind: str) -> float:
    """Return the count of a case: 'operations', 'waits', 'collectives' or 'peak_bytes'."""
    cases = json.loads(NOW.read_text(encoding="utf-8"))["cases"]
    return float(cases[name][kind])


def table(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return version 0.1 next to the current one, in Markdown."""
    lines = [
        "| a training step | waits of the host | operations | calls of NCCL | peak, GiB |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, new in now["cases"].items():
        old = before["cases"].get(name, {})
        cells = [
            _change(old.get("waits_of_step"), new["waits_of_step"], "{:,.0f}"),
            _change(old.get("operations"), new["operations"], "{:,.0f}"),
            _change(old.get("collectives"), new["collectives"], "{:,.0f}"),
            _peak(name, old.get("peak_bytes"), new["peak_bytes"]),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| scoring | waits of the host |", "|---|---:|"]
    for name, what in SCORING.items():
        old = before["scoring"].get(name)
        lines.append(f"| {what} | {_change(old, now['scoring'][name], '{:,.0f}')} |")
    return "\n".join(lines)


def _peak(name: str, before: float | None, now: float) -> str:
    """Return both peaks; the memory of CUDA graphs is not in the allocator's peak."""
    return "not counted" if GRAPHS in name else _change(_gib(before), _gib(now), "{:.2f}")


def _change(before: float | None, now: float | None, form: str) -> str:
    old = "-" if before is None else form.format(before)
    return f"{old} → {form.format(now)}"


def _gib(peak: float | None) -> float | None:
    return None if peak is None else peak / _GIB


def section() -> str:
    """Return the part of RESULTS.md with the saved counts, between its marks."""
    before = json.loads(BEFORE.read_text(encoding="utf-8"))
    now = json.loads(NOW.read_text(encoding="utf-8"))
    rows = "\n".join(f"| {what} | not measured |" for what in NOT_MEASURED)
    return "\n".join(
        [
            _BEGIN,
            f"## What a step costs the host of a GPU: version 0.1 → now, torch {now['torch']}",
            _ABOUT,
            table(before, now),
            f"\n### What needs a real GPU\n\n| | |\n|---|---|\n{rows}",
            _NOT_MEASURED_ABOUT,
            f"{_END}\n",
        ]
    )


def write_results(path: Path) -> None:
    """Write the section into RESULTS.md, replacing the present one, or at the end."""
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    tail = rest.partition(f"{_END}\n")[2]
    write_text(path, head.rstrip() + "\n\n" + section() + tail)
