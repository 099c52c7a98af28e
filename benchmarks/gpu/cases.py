"""Cases of training steps, each measured in separate processes (`measure.py`).

If only one process at a time may use a GPU, the process that waits for others must not hold it.
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
    """The parameters of a measurement.

    Attributes:
        settings: Values by name, such as {'computing.precision': 'bf16'}; the architecture and the
            like come first.
        options: Names of torch options, see `torch_options.py`.
    """

    architecture: str
    minibatch: int
    samples: int
    rounds: int
    settings: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """The cost of a step of a case.

    Attributes:
        host_ms: CPU time of this process, in milliseconds.
        utterances_per_s: Number of utterances per second, on all GPUs.
        operations, busy_ms: Number of kernels, and time in which one runs; None if the profiler
            sees none.
        loss_scale, skipped: Loss scale of fp16 at the end, and number of skipped steps.
        dtype: Number format of the computation, such as 'bfloat16'; 'float32'.
        is_xlsr_aasist: Whether `peaks` knows the multiply-adds of a clip.
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
    """Return XLS-R 300M + AASIST with the recipe's minibatch, unless specified otherwise."""
    sizes = setup.sizes
    size = minibatch or sizes.minibatches[0]
    return Case(sizes.architecture, size, sizes.samples, sizes.rounds, settings or {})


def aasist_case(setup: Setup) -> Case:
    """Return AASIST on waveforms, with its recipe's minibatch."""
    return case_of(setup, AASIST, 2 if setup.quick else 24)


def measure_all(cases: Sequence[Case], processes: int = 1) -> list[Measured | str]:
    """Measure cases in turn, in one process per GPU; return costs or failures.

    Raises:
        RuntimeError: the processes failed; the message has the end of their output.
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
    """Return a line for each case that failed."""
    pairs = zip(names, results, strict=True)
    return [failed(f"{name}: a step", result) for name, result in pairs if isinstance(result, str)]
