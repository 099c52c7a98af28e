"""Utterances per second that a GPU can train on, computed from its work and the host's.

    python -m benchmarks.gpu_speed --write-docs        # puts the tables into docs/scaling.md

Nothing here is measured on a GPU. A step takes the longer of two times:

    GPU  = 2 x multiply-adds of a step / (peak x utilisation)
    host = operations x (time of the program + time of the driver) for each

Operations are counted on GPUs that compute nothing, where tests hold them. Memory is what
`--dry-run` computes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from asdf.memory import training_memory
from asdf.runs.files import write_text
from asdf.settings.sections import Sections
from benchmarks.harness import ROOT

BEGIN = "<!-- computed by benchmarks/gpu_speed.py -->"
END = "<!-- end of what was computed -->"
CLIP, CLIPS = 64600, (182_357, 10_000_000)
# Dense, in FLOP/s.
GPUS = {"V100, fp16": 125e12, "A100, bf16": 312e12, "H100, H200, GH200, bf16": 989e12}
# Assumed: the share of its peak that a GPU reaches.
UTILISATIONS = (0.40, 0.25)
# The program: 34 ms of one EPYC core for 3,592 operations. The driver: an assumption.
PROGRAM_S, DRIVER_S = 34e-3 / 3592, 2e-6
GIGA = 1e9


@dataclass(frozen=True)
class Work:
    """What is trained.

    Attributes:
        giga: multiply-adds of a clip in a step, in 10**9.
        operations: that the host queues for a step.
        settings: for the memory.
    """

    what: str
    minibatch: int
    giga: float
    operations: int
    settings: tuple[tuple[str, object], ...] = ()
    network: str = "SSL_AASIST"


CHECKPOINTS = (("gradient_checkpointing", True),)
FROZEN = (("frozen", True),)
WORKS = (
    Work("XLS-R 300M + AASIST", 14, 225.3, 1959),
    Work("the same, checkpointing", 14, 300.4, 2995, CHECKPOINTS),
    Work("the same, `computing.cuda_graphs`", 14, 225.3, 32),
    Work("the same", 64, 225.3, 1959),
    Work("front end frozen", 32, 76.5, 1069, FROZEN),
    Work("AASIST on waveforms", 24, 28.7, 626, network="AASIST"),
)


def host_seconds(work: Work) -> float:
    """Time in which the host queues a step."""
    return work.operations * (PROGRAM_S + DRIVER_S)


def gpu_seconds(work: Work, peak: float, utilisation: float) -> float:
    """Time in which the GPU computes a step."""
    return 2 * work.giga * GIGA * work.minibatch / (peak * utilisation)


def rate(work: Work, peak: float, utilisation: float) -> float:
    """Utterances per second."""
    return work.minibatch / max(host_seconds(work), gpu_seconds(work, peak, utilisation))


@cache
def memory_gib(settings: tuple[tuple[str, object], ...], network: str, minibatch: int) -> float:
    """The allocator's peak of a step in bf16 with Adam."""
    sections = Sections()
    sections.network.network_class = f"asdf.networks.{network}"
    sections.network.train_clip_size, sections.network.minibatch_size = CLIP, minibatch
    sections.network.optimizer = "adam"
    for name, value in settings:
        setattr(sections.front_end, name, value)
    peak = training_memory(sections, "wav2vec2_xlsr_300m", dtype=torch.bfloat16).peak
    return float(peak) / 2**30


def tables() -> str:
    """Both tables as Markdown."""
    heads = ["trained", "minibatch", "operations", "host, ms", "memory, GiB", *GPUS]
    rows = [[*_costs(work), *(_rates(work, peak) for peak in GPUS.values())] for work in WORKS]
    hours = [[name, *_epochs(peak)] for name, peak in GPUS.items()]
    columns = ["GPU", *(f"an epoch of {clips:,} clips" for clips in CLIPS)]
    return "\n".join(
        [
            *_table(heads, rows),
            "",
            "\\* the host is the limit: a faster GPU would train no faster.",
            "",
            *_table(columns, hours),
        ]
    )


def _costs(work: Work) -> list[str]:
    memory = memory_gib(work.settings, work.network, work.minibatch)
    # Graphs keep what they compute in between two steps; how much is theirs alone is not computed.
    shown = "-" if "graphs" in work.what else f"{memory:.1f}"
    host = f"{1000 * host_seconds(work):.1f}"
    return [work.what, str(work.minibatch), f"{work.operations:,}", host, shown]


def _rates(work: Work, peak: float) -> str:
    texts = []
    for utilisation in UTILISATIONS:
        bound = host_seconds(work) > gpu_seconds(work, peak, utilisation)
        texts.append(f"{rate(work, peak, utilisation):,.0f}{' *' if bound else ''}")
    return "–".join(dict.fromkeys(texts))


def _epochs(peak: float) -> list[str]:
    """Of the first of `WORKS`, on one GPU."""
    rates = [rate(WORKS[0], peak, utilisation) for utilisation in UTILISATIONS]
    return [
        "–".join(dict.fromkeys(f"{clips / rate / 3600:.2g} h" for rate in rates)) for clips in CLIPS
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in [heads, *rows]]
    return [lines[0], "|---|" + "---:|" * (len(heads) - 1), *lines[1:]]


def write_docs(path: Path) -> None:
    """Put the tables between the marks in the page `path`."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    write_text(path, f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}")


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
