"""The most utterances per second that a GPU can train on, computed from its work and the host's.

    python -m benchmarks.gpu_speed --write-docs        # puts the tables into docs/scaling.md

Nothing here is measured on a GPU: for that see RESULTS.md. A step takes the longer of two times:

    GPU  = 2 x multiply-adds / (peak x utilisation) + bytes / (bandwidth x utilisation)
    host = operations x (time of the program + time of the driver) for each

Products wait for arithmetic and all else for memory, one after the other. Operations and bytes are
counted on GPUs that compute nothing, where tests hold those of the first row.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT, write_between
from benchmarks.table import markdown_table

BEGIN = "<!-- computed by benchmarks/gpu_speed.py -->"
END = "<!-- end of what was computed -->"
CLIP, CLIPS = 64600, (182_357, 10_000_000)
# Assumed fractions of a GPU's peaks for products and memory.
PRODUCTS, MEMORY = 0.7, 0.8
# The program: 34 ms of one EPYC core for 3,592 operations. The driver: an assumption.
PROGRAM_S, DRIVER_S = 34e-3 / 3592, 2e-6
GIGA = 1e9


@dataclass(frozen=True)
class Gpu:
    """A GPU's peaks: dense products, in FLOP/s, and memory bandwidth, in bytes per second."""

    flops: float
    bandwidth: float


GPUS = {
    "V100, fp16": Gpu(125e12, 0.9e12),
    "A100, bf16": Gpu(312e12, 2.04e12),
    "H100, bf16": Gpu(989e12, 3.35e12),
    "H200, bf16": Gpu(989e12, 4.8e12),
}


@dataclass(frozen=True)
class Work:
    """A training workload.

    Attributes:
        giga: Number of multiply-adds per clip in a step, in 10**9.
        operations: Number of operations that the host queues for a step.
        moved: Number of bytes that a step reads and writes, in 10**9.
    """

    what: str
    minibatch: int
    giga: float
    operations: int
    moved: float


WORKS = (
    Work("XLS-R 300M + AASIST", 14, 225.3, 1967, 55.8),
    Work("the same, checkpointing", 14, 300.4, 2936, 70.8),
    Work("the same, `computing.cuda_graphs`", 14, 225.3, 31, 55.8),
    Work("the same", 64, 225.3, 1991, 192.4),
    Work("front end frozen", 32, 76.5, 1064, 39.8),
    Work("AASIST on waveforms", 24, 28.7, 593, 43.7),
)


def host_seconds(work: Work) -> float:
    """Return the time in which the host queues a step, in seconds."""
    return work.operations * (PROGRAM_S + DRIVER_S)


def gpu_seconds(work: Work, gpu: Gpu) -> float:
    """Return the minimum time in which the GPU computes a step, in seconds."""
    arithmetic = 2 * work.giga * GIGA * work.minibatch / (PRODUCTS * gpu.flops)
    return arithmetic + work.moved * GIGA / (MEMORY * gpu.bandwidth)


def rate(work: Work, gpu: Gpu) -> float:
    """Return the maximum number of utterances per second."""
    return work.minibatch / max(host_seconds(work), gpu_seconds(work, gpu))


def tables() -> str:
    """Return both tables as Markdown."""
    heads = ["trained", "minibatch", "operations", "host, ms", "GB moved", *GPUS]
    rows = [[*_costs(work), *(_rate_text(work, gpu) for gpu in GPUS.values())] for work in WORKS]
    hours = [[name, *_epochs(gpu)] for name, gpu in GPUS.items()]
    columns = ["GPU", *(f"an epoch of {clips:,} clips" for clips in CLIPS)]
    return "\n".join(
        [
            markdown_table(heads, rows, range(1, len(heads))),
            "",
            "\\* the host is the limit: a faster GPU would train no faster.",
            "",
            markdown_table(columns, hours, range(1, len(columns))),
        ]
    )


def _costs(work: Work) -> list[str]:
    host = f"{1000 * host_seconds(work):.1f}"
    moved = f"{work.moved:.1f}"
    return [work.what, str(work.minibatch), f"{work.operations:,}", host, moved]


def _rate_text(work: Work, gpu: Gpu) -> str:
    mark = " *" if host_seconds(work) > gpu_seconds(work, gpu) else ""
    return f"{rate(work, gpu):,.0f}{mark}"


def _epochs(gpu: Gpu) -> list[str]:
    """Return the epochs of the first of `WORKS`, on one GPU."""
    return [f"{clips / rate(WORKS[0], gpu) / 3600:.2g} h" for clips in CLIPS]


def write_docs(path: Path) -> None:
    """Write the tables between the marks in the page `path`."""
    write_between(path, BEGIN, END, tables())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.gpu_speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--write-docs", action="store_true", help="write into docs/scaling.md")
    if parser.parse_args(arguments).write_docs:
        write_docs(ROOT / "docs" / "scaling.md")
    else:
        print(tables())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
