"""What a detector computes with: the device, and the threads of the CPU.

Invariant: a forked process never waits for threads that its parent had. A fork takes along the one
thread that calls it; torch's others are gone, and it would wait for them without end. So there a
detector computes with one thread, as torch's data loaders do.
"""

from __future__ import annotations

import os
from functools import cache

import torch

from asdf.distributed.cores import usable_cores
from asdf.errors import UsageError
from asdf.runs.log import LOG

_SMALL_NETWORK = 10_000_000


@cache
def _first_process() -> int:
    """Return the process in which a detector was made first: this one, or one above its forks."""
    return os.getpid()


def set_threads(threads: int | None) -> int:
    """Let torch compute with `threads` threads.

    None: as many as this process may use cores, or fewer if torch has them. A process that was
    forked after a detector was made computes with 1.

    Returns:
        The number of threads.

    Raises:
        UsageError: less than one.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"threads = {threads}: give 1 or more, or leave it out.")
    count = threads or min(torch.get_num_threads(), usable_cores())
    if _first_process() != os.getpid() and count > 1:
        LOG.warning(
            "this process was forked after its parent had made a detector: it computes with 1 "
            "thread instead of %d. Start it by 'spawn' or 'forkserver' to use more.",
            count,
        )
        count = 1
    torch.set_num_threads(count)
    return count


def choose_threads(requested: int | None, device: torch.device, parameters: int) -> int:
    """Choose the number of threads for a network.

    By default it is 1 for a network of fewer than 10 million parameters on a CPU, whose operations
    are so short that threads mostly wait for each other: on a busy machine several take ten times
    as long as one. It does not depend on how busy the machine is: sums of other numbers of threads
    have other last digits.

    Args:
        requested: None: the default. Otherwise torch computes with it already (`set_threads`).
        parameters: Number in the network, or of all networks of a fused system.

    """
    if requested is None and device.type == "cpu" and parameters < _SMALL_NETWORK:
        return 1
    return torch.get_num_threads()


def check_process(made_in: int) -> None:
    """Raise a UsageError in another process than the one where a detector was made."""
    if made_in != os.getpid():
        raise UsageError(
            f"this detector was made in process {made_in}, of which this process ({os.getpid()}) "
            "is a fork: torch would wait here without end for threads that a fork does not take "
            "along. Make the detector in this process, or start processes by 'spawn' or "
            "'forkserver' (multiprocessing.get_context('spawn')), and pass it to them: it can be "
            "pickled."
        )


def find_device(wanted: str | torch.device) -> torch.device:
    """Return the device of that name; 'auto' is a GPU where there is one, else the CPU.

    Raises:
        UsageError: there is no such device.
    """
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise UsageError(
            f"there is no device {wanted!r}: write 'auto', 'cpu', 'cuda' or 'cuda:1'."
        ) from None
    if device.type == "cuda" and torch.cuda._is_in_bad_fork():
        raise UsageError(
            f"{device} cannot be used in a process that was forked from one that uses a GPU. Start "
            "it by 'spawn' or 'forkserver'."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"there is no device {wanted}: {torch.cuda.device_count()} GPUs are visible here."
        )
    if device.type not in ("cpu", "cuda") and not _can_compute(device):
        raise UsageError(
            f"torch {torch.__version__} cannot compute on {str(device)!r} on this machine: such a "
            "device is not here, or torch was built without it. Use 'auto', 'cpu', 'cuda' or "
            "'cuda:1'."
        )
    if device.type not in ("cpu", "cuda"):
        LOG.warning(
            "%s: ASDF is tested on CPUs and NVIDIA's GPUs alone. Score some recordings with "
            "device 'cpu' as well, and compare.",
            device,
        )
    return device


def _can_compute(device: torch.device) -> bool:
    try:
        # Of 'meta' a number cannot be read.
        return torch.ones(1, device=device).item() == 1
    except (RuntimeError, AssertionError, ImportError):
        return False
