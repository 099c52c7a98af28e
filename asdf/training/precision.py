"""In which number format the training step computes, and why."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    """`dtype` of autocast (None: float32 throughout) and the line that tells the user why."""

    device: torch.device
    dtype: torch.dtype | None
    reason: str

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, self.dtype) if self.dtype else nullcontext()

    def scaler(self) -> torch.amp.GradScaler:
        """float16 has too little range for small gradients, so its losses are scaled; a no-op for the others."""
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype is torch.float16)


def choose_precision(asked: str, device: torch.device, sharded: bool = False) -> Precision:
    """What `computing.precision` means on `device`.

    bf16 is judged by the compute capability: `torch.cuda.is_bf16_supported()` also counts GPUs that only emulate it.
    The tensor cores of 7.x compute in fp16 only.

    Args:
        sharded: the network is divided over the processes, which a loss scale is not made for.
    """
    if device.type != "cuda":
        if asked == "bf16":
            return Precision(device, torch.bfloat16, "precision bf16, as asked")
        why = {"auto": "no GPU", "fp16": "fp16 not used: it needs a GPU", "fp32": "as asked"}[asked]
        return Precision(device, None, f"precision fp32: {why}")
    capability = torch.cuda.get_device_capability(device)
    text = f"compute capability {capability[0]}.{capability[1]}"
    if asked in ("auto", "bf16"):
        if capability >= (8, 0):
            return Precision(device, torch.bfloat16, f"precision bf16: {text}")
        if asked == "auto" and sharded:
            why = f"precision fp32: {text}, and computing.shard_network goes without fp16"
            return Precision(device, None, why)
        if asked == "auto" and capability >= (7, 0):
            why = f"precision fp16 with loss scaling: {text}, bf16 needs 8.0"
            return Precision(device, torch.float16, why)
        return Precision(device, None, f"precision fp32: bf16 not used: {text}, it needs 8.0")
    if asked == "fp16":
        return Precision(device, torch.float16, "precision fp16 with loss scaling, as asked")
    return Precision(device, None, "precision fp32, as asked")
