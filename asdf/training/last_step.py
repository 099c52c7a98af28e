"""What is known of a step only after it: whether its gradient was finite, or what fp16 made of its loss scale.

Invariant: the host never waits for it. It is computed on the device and travels to the host with the loss of the next
step. A network is saved only after that of its last step has been looked at, so none with NaN is ever saved.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# From the first loss scale, 65536, this many halves lead to 0.002: no network needs that.
MOST_SKIPPED = 25


class LastStep:
    """The step taken last, until it is known to be sound.

    Attributes:
        loss_scale: fp16's, as far as it is known; None without a loss scale.
        skipped: steps that fp16 skipped since `take_skipped`, as their gradient was not finite.
    """

    def __init__(self, scaler: torch.amp.GradScaler, device: torch.device) -> None:
        self._scaler, self._device = scaler, device
        self.skipped = 0
        self._in_a_row = 0
        self._number: Tensor | None = None
        self._name = ""
        self.loss_scale = scaler.get_scale() if scaler.is_enabled() else None

    def note(self, name: str, norm: Tensor | None) -> None:
        """Remember a step that has just been taken.

        Args:
            name: what the message says of it.
            norm: any norm of its gradient, on the device; with fp16, which looks by itself, it does not matter.
        """
        self._name, self._number = name, norm
        if self.loss_scale is not None:
            self._number = self._scaler.scale(torch.ones((), device=self._device))

    def numbers(self) -> list[Tensor]:
        """What is to reach `is_sound`, on the device, in float64: one number, or none before the first step."""
        return [] if self._number is None else [self._number.double()]

    def is_sound(self, numbers: list[float]) -> bool:
        """Whether training may go on after the step, by its `numbers`; they are counted once."""
        self._number = None
        for number in numbers:
            if self.loss_scale is None:
                return math.isfinite(number)
            skipped = number < self.loss_scale
            self.loss_scale = number
            self.skipped += skipped
            self._in_a_row = self._in_a_row + 1 if skipped else 0
        return self._in_a_row < MOST_SKIPPED

    def take_skipped(self) -> int:
        """How many steps were skipped since the last call."""
        skipped, self.skipped = self.skipped, 0
        return skipped

    def complaint(self) -> str:
        """Why training cannot go on."""
        if self.loss_scale is None:
            return (
                f"the gradient of {self._name} is not a finite number, although its loss is. Nothing was saved from "
                "this step on. Look at these recordings; if they are sound, lower network.initial_learning_rate, set "
                "network.gradient_clip_norm, or computing.precision='fp32'."
            )
        return (
            f"fp16 skipped {MOST_SKIPPED} steps in a row, the last one {self._name}: their gradients are not finite, "
            f"with a loss scale of {self.loss_scale:g}. So the network learns nothing. Set computing.precision='bf16', "
            "where the GPU computes in it, or 'fp32'."
        )
