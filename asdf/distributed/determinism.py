"""`computing.deterministic`: bit-identical results on a GPU, as far as torch supports it.

Invariant: all changes to the process are reverted afterwards, so runs in one process do not affect
each other's settings.

Source of the requirements: torch's notes on reproducibility and
`torch.use_deterministic_algorithms`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asdf.errors import UsageError

if TYPE_CHECKING:
    import torch

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
# With any other value, torch refuses matrix products in this mode.
_ACCEPTED = (":4096:8", ":16:8")
_REFUSAL = re.compile(r"(\S+) does not have a deterministic implementation")


def check_workspace(wanted: bool) -> None:
    """Refuse an environment in which `computing.deterministic` cannot work.

    Args:
        wanted: Value of the setting.

    Raises:
        UsageError: the environment has a cuBLAS workspace that torch refuses in this mode.
    """
    value = os.environ.get(WORKSPACE)
    if wanted and value is not None and value not in _ACCEPTED:
        raise UsageError(
            f"computing.deterministic = True, but the environment has {WORKSPACE}={value}, with "
            f"which the order of sums in cuBLAS varies: unset it, or set {' or '.join(_ACCEPTED)}."
        )


@contextmanager
def workspace(wanted: bool) -> Iterator[None]:
    """Set a deterministic workspace of cuBLAS in the environment of the block.

    cuBLAS and torch read it once, at their first GPU computation, so enter the block before that.

    Raises:
        UsageError: as `check_workspace`.
    """
    check_workspace(wanted)
    if not wanted or WORKSPACE in os.environ:
        yield
        return
    os.environ[WORKSPACE] = _ACCEPTED[0]
    try:
        yield
    finally:
        del os.environ[WORKSPACE]


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Let torch choose only deterministic algorithms in the block, if `wanted`.

    An operation without a deterministic algorithm is refused (see `explain_refusal`).

    Raises:
        UsageError: as `check_workspace`.
    """
    if not wanted:
        yield
        return
    import torch
    from torch.backends import cudnn

    strict = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    of_cudnn = (cudnn.deterministic, cudnn.benchmark)
    with workspace(wanted):
        try:
            torch.use_deterministic_algorithms(True)
            # Benchmarking selects the fastest algorithm, which may differ next time.
            cudnn.deterministic, cudnn.benchmark = True, False
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=only_warns)
            cudnn.deterministic, cudnn.benchmark = of_cudnn


def describe_promise(device: torch.device) -> str:
    """Return a line for the log on what `computing.deterministic` guarantees on `device`."""
    where = "on the CPU"
    if device.type == "cuda":
        where = "on GPUs of this model with this driver and these packages"
    return (
        "computing.deterministic: the same command gives the same bits, interrupted and resumed or "
        f"not, {where}, with the same number of processes"
    )


def explain_refusal(error: BaseException) -> UsageError | None:
    """Return the message for an operation that torch refused; None for any other error."""
    if "Expected more than 1 value per channel when training" in str(error):
        return UsageError(
            "the network's batch norm cannot be trained on one utterance at a time: set "
            "network.minibatch_size to 2 or more (network.global_minibatch_size: 2 per process)."
        )
    refused = _REFUSAL.search(str(error))
    if refused is None:
        return None
    explained = UsageError(
        "computing.deterministic = True, but torch has no deterministic way to compute "
        f"{refused[1]} on this device, which the network or its training needs. Use other "
        "operations (torch.use_deterministic_algorithms in torch's documentation lists those "
        "without), or set computing.deterministic = False."
    )
    explained.reported_by_main = getattr(error, "reported_by_main", False)
    return explained
