"""Non-blocking copies between host and GPU through pinned memory.

Invariant: values are those of a plain copy; on the CPU nothing is copied. A copy to or from
ordinary memory makes the host wait until the GPU has finished all its work; a copy through pinned
memory does not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a CPU tensor on `device`; on a GPU it arrives after previously queued work."""
    if device.type != "cuda":
        return tensor.to(device)
    # torch does not reuse the pinned memory before the copy is done.
    return tensor.pin_memory().to(device, non_blocking=True)


def fetch_later(values: Tensor) -> Callable[[], Tensor]:
    """Start copying a tensor to the host.

    Returns:
        Function that returns the copy. It waits only for the computation of the tensor, not for
        work queued later.
    """
    if values.device.type != "cuda":
        return values.cpu
    host = torch.empty_like(values, device="cpu", pin_memory=True)
    host.copy_(values, non_blocking=True)
    # Waiting for a blocking event leaves the core free to read clips.
    arrived = torch.cuda.Event(blocking=True)
    arrived.record(torch.cuda.current_stream(values.device))

    def wait_for_copy() -> Tensor:
        arrived.synchronize()
        return host

    return wait_for_copy
