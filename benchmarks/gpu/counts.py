"""Operations of a training step, compared with those that `gpu-counts` counts without a GPU.

A call of cuDNN or cuBLAS counts there as one operation, but may be several kernels, hence the
limit.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.null_table import saved_count
from benchmarks.gpu.operations import NO_KERNELS, operations_of
from benchmarks.gpu.verdict import Line, at_most, not_run
from benchmarks.gpu.waits import step_with

KERNELS_PER_OPERATION = 1.5
NAMES = ("SSL_MHFA", "SSL_Nes2NetX", "AASIST", "SSL_AASIST")


def operations(setup: Setup) -> Iterable[Line]:
    """Small networks with minibatches of 2, in bf16."""
    for name in NAMES[: setup.sizes.networks]:
        what = f"{name}, tiny: operations of a step"
        expected = saved_count(name, "operations")
        limit = KERNELS_PER_OPERATION * expected
        if torch.cuda.get_device_capability() < (8, 0):
            yield not_run(what, "the GPU does not compute in bf16, which they are counted in")
            continue
        done = operations_of(step_with(name, **{"computing.precision": "bf16"}))
        if done is None:
            yield not_run(what, NO_KERNELS, f"<= {limit:g}")
        else:
            yield at_most(what, done.count, limit, reason=f"{expected:,.0f} without a GPU")


CHECKS: dict[str, Check] = {"operations": operations}
