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


def fetch_later(values: Tensor) -> Callable[[], Tensor]:
    """Start to bring a tensor to the host.

    Returns:
        Gives the tensor; it waits for what the tensor is computed from, and for no work that was queued since.
    """
    if values.device.type != "cuda":
        return values.cpu
    host = torch.empty_like(values, device="cpu", pin_memory=True)
    host.copy_(values, non_blocking=True)
    # A blocking event lets the core read clips meanwhile.
    arrived = torch.cuda.Event(blocking=True)
    arrived.record(torch.cuda.current_stream(values.device))

    def fetched() -> Tensor:
        arrived.synchronize()
        return host

    return fetched
