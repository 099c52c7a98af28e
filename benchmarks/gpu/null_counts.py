"""What a training step costs the host, counted without a GPU: `python -m benchmarks gpu-counts`.

It runs the tools of tests/gpu on the null GPU, a CUDA runtime whose kernels do nothing: waits of
the host, operations given to the device, calls of NCCL and the peak of torch's allocator are those
of a GPU; times and values are not there. Writes counts.json beside this file, and the table in
RESULTS.md from it and from counts_0.1.json, which the same tools counted in version 0.1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asdf.errors import UsageError
from asdf.runs.files import write_text
from benchmarks.corpus import temporary_corpus
from benchmarks.gpu.null_table import BEFORE, NOW, SCORING, table, write_results
from benchmarks.harness import ROOT, log_line

_CLASS = "network.network_class"
_XLSR = {"front_end.architecture": "wav2vec2_xlsr_300m", "network.minibatch_size": 14}


@dataclass(frozen=True)
class Case:
    """A row of the table.

    Attributes:
        settings: Settings for `tests.gpu.count_training`; by default a tiny front end and 2 clips
            of 4 s per GPU.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    gpus: int = 1


def _network(name: str, **more: Any) -> dict[str, Any]:
    return {_CLASS: f"asdf.networks.{name}", **more}


_WAVLM = {"front_end.architecture": "wavlm_base", "front_end.layer": 2}
_GRAPHS = {"computing.cuda_graphs": True}
_FP16_SGD = {"computing.precision": "fp16", "network.optimizer": "sgd"}
_CHECKPOINTED = {"front_end.gradient_checkpointing": True}
CASES = (
    Case("SSL_AASIST", _network("SSL_AASIST")),
    Case("SSL_AASIST, 2 GPUs", _network("SSL_AASIST"), 2),
    Case("SSL_AASIST, CUDA graphs", _network("SSL_AASIST", **_GRAPHS)),
    Case("AASIST", _network("AASIST")),
    Case("AASIST, 2 GPUs", _network("AASIST"), 2),
    Case("SSL_Nes2NetX", _network("SSL_Nes2NetX")),
    Case("SSL_Nes2NetX, 2 GPUs", _network("SSL_Nes2NetX"), 2),
    Case("SSL_MHFA", _network("SSL_MHFA")),
    Case("WavLM + MHFA", _network("SSL_MHFA", **_WAVLM)),
    Case("WavLM + MHFA, checkpointing", _network("SSL_MHFA", **_WAVLM, **_CHECKPOINTED)),
    Case("SSL_MHFA, fp16, SGD", _network("SSL_MHFA", **_FP16_SGD)),
    Case("XLS-R 300M + AASIST, 14", _network("SSL_AASIST", **_XLSR)),
    Case("XLS-R 300M + AASIST, 14, CUDA graphs", _network("SSL_AASIST", **_XLSR, **_GRAPHS)),
    Case("XLS-R 300M + AASIST, 14, 2 GPUs", _network("SSL_AASIST", **_XLSR), 2),
    Case(
        "XLS-R 300M + AASIST, 14, 2 GPUs, CUDA graphs",
        _network("SSL_AASIST", **_XLSR, **_GRAPHS),
        2,
    ),
    Case(
        "XLS-R 300M + AASIST, 14, fp32",
        _network("SSL_AASIST", **_XLSR, **{"computing.precision": "fp32"}),
    ),
    Case(
        "XLS-R 300M + AASIST, 14, checkpointing", _network("SSL_AASIST", **_XLSR, **_CHECKPOINTED)
    ),
)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks gpu-counts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--write", action="store_true", help="write counts.json and RESULTS.md")
    options = parser.parse_args(words)
    counted = count_all()
    if options.write:
        write_text(NOW, json.dumps(counted, indent=1) + "\n")
        write_results(ROOT / "benchmarks" / "RESULTS.md")
    else:
        print(table(json.loads(BEFORE.read_text(encoding="utf-8")), counted))
    return 0


def count_all() -> dict[str, Any]:
    """Count all cases and scoring on null GPUs.

    Raises:
        UsageError: a null GPU is not possible here.
    """
    from tests.gpu.null_gpu import build

    reason = build.missing()
    if reason:
        raise UsageError(f"no null GPU: {reason}")
    import torch

    cases: dict[str, Any] = {}
    for gpus in sorted({case.gpus for case in CASES}):
        cases.update(_count_cases([case for case in CASES if case.gpus == gpus], gpus))
    in_order = {case.name: cases[case.name] for case in CASES}
    return {"torch": torch.__version__, "cases": in_order, "scoring": _count_scoring()}


def _count_cases(cases: Sequence[Case], gpus: int) -> dict[str, Any]:
    results = {}
    for case in cases:
        log_line(f"{case.name} ...")
        words = ["tests.gpu.count_training", json.dumps([case.settings])]
        (result,) = _on_null_gpus(gpus, *words)
        result["waits_of_step"] = sum(result["waits"].values())
        results[case.name] = result
    return results


def _count_scoring() -> dict[str, float]:
    log_line("scoring ...")
    with temporary_corpus(8, 1.0) as corpus:
        waits = _on_null_gpus(1, "tests.gpu.count_scoring", str(corpus.utterances.folder))
    return {name: sum(places.values()) for name, places in waits.items() if name in SCORING}


def _on_null_gpus(gpus: int, module: str, *words: str) -> Any:
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={gpus}"]
    launcher = torchrun if gpus > 1 else []
    command = [sys.executable, *launcher, "-m", module, *words]
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.null_gpu.build", str(gpus), *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{module} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
