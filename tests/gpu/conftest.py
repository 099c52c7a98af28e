"""Programs on GPUs that compute nothing (see `tests.gpu.null_gpu`)."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import PATIENCE_S, ROOT, Outcome, starting_when_used
from tests.gpu.null_gpu import build


@pytest.fixture(scope="session")
def null_gpu() -> Callable[..., dict[str, str]]:
    """The environment of a program on null GPUs: of `build.variables`, with the same arguments."""
    reason = build.missing()
    if reason:
        pytest.skip(f"no null GPU: {reason}")

    def environment(**gpus: int) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        return {**build.variables(**gpus), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    return environment


@pytest.fixture(scope="session")
def warm(null_gpu, tmp_path_factory) -> Iterator[Callable[[], str]]:
    """Return the path of a Python that has loaded torch on null GPUs.

    How many there are, and what they are, is what the variables of a program say.
    """
    with starting_when_used(tmp_path_factory.mktemp("gpu_python"), **null_gpu()) as start:
        yield start


@pytest.fixture(scope="session")
def on_null_gpu(null_gpu, warm) -> Callable[..., Any]:
    """Run a module of `tests.gpu` on null GPUs, one process on each; return its last JSON line."""

    def run(module: str, *words: str, processes: int = 1, **gpus: int) -> Any:
        environment = null_gpu(**{"count": processes, **gpus})
        outcome = run_module(warm(), environment, module, *words, processes=processes)
        assert outcome.status == 0, outcome.output
        return json.loads(outcome.output.splitlines()[-1])

    return run


def run_module(
    python: str, environment: dict[str, str], module: str, *words: str, processes: int = 1
) -> Outcome:
    """Run `tests.gpu.<module>`, by torchrun where it is to be several processes."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command = [python, *(launcher if processes > 1 else []), "-m", f"tests.gpu.{module}", *words]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        timeout=PATIENCE_S,
    )
    return Outcome(done.returncode, done.stdout)
