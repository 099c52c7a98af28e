"""The choice of the number format for training steps, with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from asdf.distributed.arithmetic import NO_BFLOAT16, computes_bfloat16
from asdf.networks.autocast import norms_shortened

# Compute capabilities of NVIDIA GPUs with tensor cores for bf16, and for fp16.
_BF16_NEEDS = (8, 0)
_FP16_NEEDS = (7, 0)


@dataclass(frozen=True)
class Precision:
    """The number format of autocast.

    Attributes:
        dtype: Type of autocast; None for float32 throughout.
        reason: Line for the log with the reason.
        short_norms: Whether norms also compute in that format.
    """

    device: torch.device
    dtype: torch.dtype | None
    reason: str
    short_norms: bool = False

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Compute in this precision inside the block."""
        if self.dtype is None:
            yield
            return
        with torch.autocast(self.device.type, self.dtype), norms_shortened(self.short_norms):
            yield

    def with_norms(self, norms: str) -> Precision:
        """Return this precision with norms according to `computing.norms`, which needs bf16.

        In float16, the sums of an encoder's layers may exceed the largest number.
        """
        if norms == "bf16" and self.dtype is torch.bfloat16:
            return replace(self, short_norms=True, reason=f"{self.reason}, norms as well")
        return self

    def scaler(self) -> torch.amp.GradScaler:
        """Return the loss scale, which has no effect in formats other than fp16.

        The range of float16 is too small for small gradients.
        """
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype is torch.float16)


def choose_precision(requested: str, device: torch.device) -> Precision:
    """Return the precision for `computing.precision` on `device`.

    Support of bf16 is decided by compute capability, since `torch.cuda.is_bf16_supported()`
    includes GPUs that only emulate it. The tensor cores of 7.x compute only in fp16.
    """
    if device.type != "cuda":
        return _choose_on_cpu(requested, device)
    if requested == "fp16":
        return Precision(device, torch.float16, "precision fp16 with loss scaling, as requested")
    if requested == "fp32":
        return Precision(device, None, "precision fp32, as requested")
    capability = torch.cuda.get_device_capability(device)
    text = f"compute capability {capability[0]}.{capability[1]}"
    if capability >= _BF16_NEEDS:
        return Precision(device, torch.bfloat16, f"precision bf16: {text}")
    if requested == "bf16" or capability < _FP16_NEEDS:
        return Precision(device, None, f"precision fp32: bf16 not used: {text}, it needs 8.0")
    reason = f"precision fp16 with loss scaling: {text}, bf16 needs 8.0"
    return Precision(device, torch.float16, reason)


def _choose_on_cpu(requested: str, device: torch.device) -> Precision:
    if requested == "bf16" and computes_bfloat16():
        return Precision(device, torch.bfloat16, "precision bf16, as requested")
    reasons = {
        "auto": "no GPU",
        "bf16": NO_BFLOAT16,
        "fp16": "fp16 not used: it needs a GPU",
        "fp32": "as requested",
    }
    return Precision(device, None, f"precision fp32: {reasons[requested]}")
