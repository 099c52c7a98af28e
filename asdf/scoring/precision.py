"""In which arithmetic scores are computed, and why.

Invariant: a list, and with it validation and stage 2, and the Detector compute alike for one
precision, whatever the program around them has chosen. The precision that stands beside scores is
the one that they were computed in: where a device has none of the one that is asked for, that is
said, or refused. The score itself is a float32 number in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from asdf.distributed.arithmetic import tf32
from asdf.distributed.world import World
from asdf.errors import UsageError

PRECISIONS = ("fp32", "tf32", "bf16")
# The first compute capability of NVIDIA's with tensor cores for bf16 and TF32. What torch calls
# supported includes GPUs that only emulate bf16.
_NEEDED = (8, 0)


@dataclass(frozen=True)
class ScoringPrecision:
    """What scores are computed in on a device.

    Attributes:
        name: 'fp32', 'tf32' or 'bf16'.
        reason: why it is another than was asked for; '' where it is not.
    """

    name: str
    device: torch.device
    reason: str = ""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute so inside the block, without gradients."""
        in_bf16 = torch.autocast(self.device.type, torch.bfloat16, enabled=self.name == "bf16")
        with torch.inference_mode(), tf32(self.name == "tf32"), in_bf16:
            yield

    def describe(self) -> str:
        """For the log."""
        return f"scoring in {self.name}" + (f": {self.reason}" if self.reason else "")


def choose_scoring_precision(asked: str, device: torch.device) -> ScoringPrecision:
    """What 'fp32', 'tf32' or 'bf16' means on `device`.

    Without TF32 scores are computed in fp32, which is never further from them. Emulated bf16 would
    be slower than fp32 and coarser: it is refused.

    Raises:
        UsageError: bf16 on a GPU that has none, or no such precision.
    """
    if asked not in PRECISIONS:
        raise UsageError(f"precision {asked!r}: scores are computed in {', '.join(PRECISIONS)}.")
    if asked == "fp32" or (asked == "bf16" and device.type == "cpu"):
        return ScoringPrecision(asked, device)
    if device.type != "cuda":
        return ScoringPrecision("fp32", device, f"{asked} not used: it needs a GPU")
    capability = torch.cuda.get_device_capability(device)
    if capability >= _NEEDED:
        return ScoringPrecision(asked, device)
    lacks = f"{device} has compute capability {capability[0]}.{capability[1]}"
    if asked == "tf32":
        return ScoringPrecision("fp32", device, f"TF32 not used: {lacks}, it needs 8.0")
    raise UsageError(
        f"scores cannot be computed in bf16: {lacks}, bf16 needs 8.0, and emulated it is slower than "
        "fp32. Set computing.scoring_precision='fp32' (of `python -m asdf score`: --precision fp32)."
    )


def agree_on_precision(asked: str, world: World) -> ScoringPrecision:
    """The precision that all processes of `world` score in, the same on every rank.

    Raises:
        UsageError: on every rank, where the device of one refuses it.
    """
    refusal, own = "", ScoringPrecision("fp32", world.device)
    try:
        own = choose_scoring_precision(asked, world.device)
    except UsageError as error:
        refusal = str(error)
    every = world.gather((refusal, own.name, own.reason)) or []

    def decide() -> tuple[str, str]:
        refused = [words for words, _, _ in every if words]
        if refused:
            raise UsageError(refused[0])
        # One process without TF32: a list is not scored in two precisions.
        others = [(name, reason) for _, name, reason in every if reason]
        return others[0] if others else (own.name, "")

    name, reason = world.run_on_main(decide)
    return ScoringPrecision(name, world.device, reason)
