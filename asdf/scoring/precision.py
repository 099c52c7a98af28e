"""In which arithmetic scores are computed, and why.

Invariant: a list, and with it validation and stage 2, and the Detector compute alike for one
precision, whatever the program around them has chosen. The precision that is recorded with scores
is the one that they were computed in: where a device lacks the requested one, that is logged, or
refused. The score itself is a float32 number in any case.

The default, 'auto', is TF32 on GPUs that have it: fp32 takes several times as long there, and TF32
moved no error rate of the networks that were tried (benchmarks/RESULTS.md).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from asdf.distributed.gpu_arithmetic import arithmetic
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.packed import NO_BFLOAT16, computes_bfloat16, multiplies_bfloat16

AUTO = "auto"
PRECISIONS = (AUTO, "fp32", "tf32", "bf16")
# The first compute capability of NVIDIA's with tensor cores for bf16 and TF32. What torch calls
# supported includes GPUs that only emulate bf16.
_NEEDED = (8, 0)
_EMULATED = (
    "this CPU has neither AVX512_BF16 nor AMX, so bf16 is emulated, slower than fp32 and coarser"
)

_choice = threading.RLock()


@dataclass(frozen=True)
class ScoringPrecision:
    """What scores are computed in on a device.

    Attributes:
        name: 'fp32', 'tf32' or 'bf16': what is really computed in, never 'auto'.
        reason: why it is not the requested one, or why that is slow; ''.
    """

    name: str
    device: torch.device
    reason: str = ""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in this precision inside the block, without gradients."""
        in_bf16 = torch.autocast(self.device.type, torch.bfloat16, enabled=self.name == "bf16")
        with torch.inference_mode(), self._choosing_products(), in_bf16:
            yield

    @contextmanager
    def _choosing_products(self) -> Iterator[None]:
        """Choose the arithmetic on a GPU alone: it is one choice of the whole process."""
        if self.device.type != "cuda":
            yield
            return
        # Two threads would otherwise restore each other's choice instead of the program's.
        with _choice, arithmetic(tf32=self.name == "tf32"):
            yield

    def describe(self) -> str:
        """Describe the precision for the log."""
        if not self.reason:
            return f"scoring in {self.name}"
        return f"scoring in {self.name}: {self.reason}"


def choose_scoring_precision(requested: str, device: torch.device) -> ScoringPrecision:
    """Choose what 'auto', 'fp32', 'tf32' or 'bf16' means on `device`.

    'auto' is TF32 on a GPU that has it, else fp32. Without TF32 scores are computed in fp32, which
    is never further from them, and so are those of a CPU for which torch has no bf16. Emulated bf16
    would be slower than fp32 and coarser: a GPU refuses it, and of a CPU it is logged.

    Raises:
        UsageError: bf16 on a GPU that has none, or no such precision.
    """
    if requested not in PRECISIONS:
        raise UsageError(
            f"precision {requested!r}: scores are computed in {', '.join(PRECISIONS)}."
        )
    if requested == AUTO:
        return ScoringPrecision("tf32" if _has_tf32(device) else "fp32", device)
    if requested == "fp32":
        return ScoringPrecision(requested, device)
    if requested == "bf16" and device.type == "cpu":
        return _choose_bf16_on_cpu(device)
    if device.type != "cuda":
        return ScoringPrecision("fp32", device, f"{requested} not used: it needs a GPU")
    capability = torch.cuda.get_device_capability(device)
    if capability >= _NEEDED:
        return ScoringPrecision(requested, device)
    lacks = f"{device} has compute capability {capability[0]}.{capability[1]}"
    if requested == "tf32":
        return ScoringPrecision("fp32", device, f"TF32 not used: {lacks}, it needs 8.0")
    raise UsageError(
        f"scores cannot be computed in bf16: {lacks}, bf16 needs 8.0, and emulated it is slower "
        "than fp32. Set computing.scoring_precision='fp32' (of `python -m asdf score`: "
        "--precision fp32)."
    )


def _has_tf32(device: torch.device) -> bool:
    if device.type != "cuda" or torch.version.hip is not None:
        # What torch calls the compute capability of an AMD GPU says nothing of TF32.
        return False
    return torch.cuda.get_device_capability(device) >= _NEEDED


def _choose_bf16_on_cpu(device: torch.device) -> ScoringPrecision:
    if not computes_bfloat16():
        return ScoringPrecision("fp32", device, NO_BFLOAT16)
    return ScoringPrecision("bf16", device, "" if multiplies_bfloat16() else _EMULATED)


def agree_on_precision(requested: str, world: World) -> ScoringPrecision:
    """Choose one precision for all processes of `world`, which call it together.

    Raises:
        UsageError: on every rank, where the device of one refuses it.
    """
    refusal = ""
    local = ScoringPrecision("fp32", world.device)
    try:
        local = choose_scoring_precision(requested, world.device)
    except UsageError as error:
        refusal = str(error)
    every = world.gather((refusal, local.name, local.reason)) or []

    def decide() -> tuple[str, str]:
        for refusal, _, _ in every:
            if refusal:
                raise UsageError(refusal)
        if requested == AUTO:
            has_tf32 = all(name == "tf32" for _, name, _ in every)
            return "tf32" if has_tf32 else "fp32", ""
        # One process without it is enough: a list is not scored in two precisions. One that only
        # emulates it does not decide before one that lacks it.
        for _, name, reason in sorted(every, key=lambda choice: choice[1] == requested):
            if reason:
                return name, reason
        return local.name, ""

    name, reason = world.run_on_main(decide)
    return ScoringPrecision(name, world.device, reason)
