"""Numbers on their way between host and GPU, without either waiting for the other longer than it has to.

Invariant: the numbers are those of a plain copy; on the CPU nothing is copied at all. A copy from or to ordinary memory
makes the host wait until the GPU has done all its work; one by way of pinned memory does not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor`, of the CPU's ordinary memory, on `device`; on a GPU when the work queued before is done."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def read_later(value: Tensor) -> Callable[[], float]:
    """Start to bring one number to the host.

    Returns:
        Gives the number; it waits for what the number is computed from, and for no work that was queued since.
    """
    if value.device.type != "cuda":
        return lambda: float(value)
    host = torch.empty_like(value, device="cpu", pin_memory=True)
    host.copy_(value, non_blocking=True)
    # A blocking event lets the core read clips meanwhile.
    arrived = torch.cuda.Event(blocking=True)
    arrived.record(torch.cuda.current_stream(value.device))

    def number() -> float:
        arrived.synchronize()
        return float(host)

    return number
