"""The norm of a step's gradient: clipped, measured, and checked after the step.

Invariant: the host never waits. Whether the gradient was finite, or fp16's new loss scale, is
computed on the device and copied to the host with the loss of the next step. A network is saved
only after its last step has been checked, so NaN weights are never saved.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Halving the first loss scale, 65536, this many times gives 0.002, which no network needs.
MAX_SKIPPED = 25


def clip_and_measure(
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    network: nn.Module,
    limit: float | None,
) -> Tensor | None:
    """Clip the gradient to the 2-norm `limit`; None leaves it unchanged.

    Returns:
        Norm of the gradient before clipping, 0-dimensional, which is NaN or infinite if the
        gradient is. None with fp16's scaler and no limit, since the scaler examines the gradient
        itself.
    """
    if limit is not None:
        # The limit applies to the true gradient, without the loss scale.
        scaler.unscale_(optimiser)
        return nn.utils.clip_grad_norm_(network.parameters(), limit)
    if scaler.is_enabled():
        return None
    # Unlike a 2-norm, the maximum cannot overflow if every value is finite.
    return nn.utils.get_total_norm(_gradients(optimiser), math.inf)


def gradient_norm(optimiser: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> Tensor:
    """Return the 2-norm of the gradient without the loss scale; 0-dimensional, on the device."""
    norm = nn.utils.get_total_norm(_gradients(optimiser))
    if scaler.is_enabled():
        # On the device, since reading the scale would make the host wait.
        norm = norm / scaler.scale(torch.ones_like(norm))
    return norm


def _gradients(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """Return the gradients of the parameters; a single zero if there are none."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return gradients or [torch.zeros(1, device=parameters[0].device)]


class LastStep:
    """The latest step, until its gradient is known to be finite.

    Attributes:
        loss_scale: Latest known loss scale of fp16; None without one.
        skipped: Steps since `take_skipped` that fp16 skipped because of a gradient that was not
            finite.
    """

    def __init__(self, scaler: torch.amp.GradScaler, device: torch.device) -> None:
        self._scaler = scaler
        self._device = device
        self.skipped = 0
        self._in_a_row = 0
        self._number: Tensor | None = None
        self._name = ""
        self.loss_scale = scaler.get_scale() if scaler.is_enabled() else None

    def note(self, name: str, norm: Tensor | None) -> None:
        """Store a step that has just been taken.

        Args:
            name: Name of the step, for the message.
            norm: Norm of any kind of its gradient, on the device; unused with fp16's loss scale.
        """
        self._name = name
        self._number = norm
        if self.loss_scale is not None:
            # The scale decreases exactly when the scaler has skipped the step.
            self._number = self._scaler.scale(torch.ones((), device=self._device))

    def numbers(self) -> list[Tensor]:
        """Return the inputs of `is_sound`, on the device, in float64; [] before the first step."""
        if self._number is None:
            return []
        return [self._number.double()]

    def is_sound(self, numbers: list[float]) -> bool:
        """Return whether training may continue after the step, whose `numbers` are counted once."""
        self._number = None
        for number in numbers:
            if self.loss_scale is None:
                return math.isfinite(number)
            was_skipped = number < self.loss_scale
            self.loss_scale = number
            if was_skipped:
                self.skipped += 1
                self._in_a_row += 1
            else:
                self._in_a_row = 0
        return self._in_a_row < MAX_SKIPPED

    def take_skipped(self) -> int:
        """Return the number of steps skipped since the last call."""
        skipped = self.skipped
        self.skipped = 0
        return skipped

    def complaint(self) -> str:
        """Return why training cannot continue."""
        if self.loss_scale is None:
            advice = (
                f"the gradient of {self._name} is not a finite number, although its loss is. "
                "Nothing was saved from this step on. Check these recordings; if they are intact, "
                "lower network.initial_learning_rate, set network.gradient_clip_norm, or "
                "computing.precision='fp32'."
            )
            if self._device.type != "cuda":
                return advice
            return (
                f"{advice} If it recurs with other recordings, or not in fp32, the cause is more "
                "likely a kernel of this GPU: see what `python -m asdf doctor` reports, and try "
                "another version of torch."
            )
        return (
            f"fp16 skipped {MAX_SKIPPED} steps in a row, the last one {self._name}: their "
            f"gradients are not finite, with a loss scale of {self.loss_scale:g}. The network "
            "learns nothing this way. Set computing.precision='bf16', where the GPU supports it, "
            "or 'fp32'."
        )
