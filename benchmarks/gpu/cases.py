"""Cases of training steps, each measured in separate processes (`measure.py`).

Where a GPU may be used by one process at a time only, whoever waits for such processes must not
hold it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.gpu.groups import Setup
from benchmarks.gpu.verdict import Line, failed
from benchmarks.harness import run_module

GIB = 2**30
CLASS = "network.network_class"
AASIST = {CLASS: "asdf.networks.AASIST"}


@dataclass(frozen=True)
class Case:
    """What is measured.

    Attributes:
        settings: by name, such as {'computing.precision': 'bf16'}; the architecture and the like
        come first.
        options: of torch, by name: see `torch_options.py`.
    """

    architecture: str
    minibatch: int
    samples: int
    rounds: int
    settings: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """What a step of a case costs.

    Attributes:
        host_ms: processor time of this process.
        utterances_per_s: of all GPUs.
        operations, busy_ms: kernels, and the time in which one runs; None where the profiler sees
        nothing.
        loss_scale, skipped: fp16's, at the end.
        dtype: that it computed in, as 'bfloat16'; 'float32'.
        is_xlsr_aasist: whether `peaks` knows the multiply-adds of a clip.
    """

    ms: float
    host_ms: float
    utterances_per_s: float
    peak_gib: float
    reserved_gib: float
    total_gib: float
    operations: int | None
    busy_ms: float | None
    first_s: float
    loss_scale: float | None
    skipped: int
    dtype: str
    gpu: str
    is_xlsr_aasist: bool


def case_of(
    setup: Setup, settings: dict[str, Any] | None = None, minibatch: int | None = None
) -> Case:
    """XLS-R 300M + AASIST with the recipe's minibatch, unless said otherwise."""
    sizes = setup.sizes
    size = minibatch or sizes.minibatches[0]
    return Case(sizes.architecture, size, sizes.samples, sizes.rounds, settings or {})


def aasist_case(setup: Setup) -> Case:
    """AASIST on waveforms, with its recipe's minibatch."""
    return case_of(setup, AASIST, 2 if setup.quick else 24)


def measure_all(cases: Sequence[Case], processes: int = 1) -> list[Measured | str]:
    """Measure cases one after the other, in one process per GPU; return costs or failures.

    Raises:
        RuntimeError: the processes broke; with the end of what they printed.
    """
    words = json.dumps([asdict(case) for case in cases])
    results = json.loads(run_module("benchmarks.gpu.measure", words, processes=processes))
    return [result if isinstance(result, str) else Measured(**result) for result in results]


def measure(case: Case, processes: int = 1) -> Measured:
    """Measure one case.

    Raises:
        RuntimeError: it failed.
    """
    (result,) = measure_all([case], processes)
    if isinstance(result, str):
        raise RuntimeError(result)
    return result


def failures(names: Sequence[str], results: Sequence[Measured | str]) -> list[Line]:
    """A line for each case that failed."""
    pairs = zip(names, results, strict=True)
    return [failed(f"{name}: a step", result) for name, result in pairs if isinstance(result, str)]
