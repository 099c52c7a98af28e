"""Non-blocking copies between host and GPU through pinned memory.

Invariant: the numbers are those of a plain copy; on the CPU nothing is copied at all. A copy from
or to ordinary memory makes the host wait until the GPU has done all its work; one through pinned
memory does not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the CPU on `device`; a GPU has it when the work queued before is done."""
    if device.type != "cuda":
        return tensor.to(device)
    # torch hands the pinned memory to nobody else before the copy is done.
    return tensor.pin_memory().to(device, non_blocking=True)


def fetch_later(values: Tensor) -> Callable[[], Tensor]:
    """Start to copy a tensor to the host.

    Returns:
        A function that returns the copy. It waits for what the tensor is computed from, and for no
        work that was queued later.
    """
    if values.device.type != "cuda":
        return values.cpu
    host = torch.empty_like(values, device="cpu", pin_memory=True)
    host.copy_(values, non_blocking=True)
    # A blocking event lets the core read clips meanwhile.
    arrived = torch.cuda.Event(blocking=True)
    arrived.record(torch.cuda.current_stream(values.device))

    def wait_for_copy() -> Tensor:
        arrived.synchronize()
        return host

    return wait_for_copy
