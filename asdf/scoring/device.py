"""What a detector computes with: the device, and the threads of the CPU."""

from __future__ import annotations

import torch

from asdf.distributed.cores import usable_cores
from asdf.errors import UsageError


def set_threads(threads: int | None) -> None:
    """Let torch compute with `threads` threads.

    None: as many as this process may use cores, or fewer if torch has them.

    Raises:
        UsageError: less than one.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"threads = {threads}: give 1 or more, or leave it out.")
    torch.set_num_threads(threads or min(torch.get_num_threads(), usable_cores()))


def find_device(wanted: str | torch.device) -> torch.device:
    """Return the device of that name; 'auto' is a GPU where there is one, else the CPU.

    Raises:
        UsageError: there is no such device.
    """
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise UsageError(
            f"there is no device {wanted!r}: write 'auto', 'cpu', 'cuda' or 'cuda:1'."
        ) from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"there is no device {wanted}: {torch.cuda.device_count()} GPUs are visible here."
        )
    return device
