"""The number format of a step, and the change of the weights by their gradient.

Invariants: the host never waits. Whether the gradient was finite, or fp16's new loss scale, is
computed on the device and copied to the host with the loss of the next step. A network is saved
only after its last step has been checked, so NaN weights are never saved.

The average (`network.ema_decay`) starts at the weights before the first step, and after each step
it is `decay * average + (1 - decay) * weights`. It is validated, saved as the network and scored;
training continues with the weights themselves, which a checkpoint holds in a separate entry.
Buffers, such as the running statistics of batch norm, are moving averages themselves and belong to
both.

Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992; with
exponential weights as in Tarvainen and Valpola, "Mean teachers", NeurIPS 2017.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.distributed.arithmetic import NO_BFLOAT16, computes_bfloat16
from asdf.errors import AsdfError
from asdf.networks.casting import norms_shortened
from asdf.settings.sections import Sections
from asdf.training.optimisers import build_optimiser, load_optimiser_state
from asdf.training.schedules import find_schedule, set_learning_rate
from asdf.training.training_progress import Progress

# Compute capabilities of NVIDIA GPUs with tensor cores for bf16, and for fp16.
_BF16_NEEDS = (8, 0)
_FP16_NEEDS = (7, 0)

# Halving the first loss scale, 65536, this many times gives 0.002, which no network needs.
MAX_SKIPPED = 25


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
        if requested == "bf16" and computes_bfloat16():
            return Precision(device, torch.bfloat16, "precision bf16, as requested")
        reasons = {
            "auto": "no GPU",
            "bf16": NO_BFLOAT16,
            "fp16": "fp16 not used: it needs a GPU",
            "fp32": "as requested",
        }
        return Precision(device, None, f"precision fp32: {reasons[requested]}")
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


class WeightAverage:
    """The averages of the parameters of `network` that are trained when this is created."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._network = network
        self._decay = decay
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self._averages = {parameter: parameter.detach().clone() for parameter in trained}

    @torch.no_grad()
    def update(self) -> None:
        """Move the averages towards the weights, after an optimiser step."""
        weights = [parameter.detach() for parameter in self._averages]
        # A few kernels for all of them. The average of a frozen weight equals it and stays.
        torch._foreach_lerp_(list(self._averages.values()), weights, 1 - self._decay)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Return a block in which the network has the averages as its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, average in self._averages.items():
            # In place, since CUDA graphs and other processes' views expect the same addresses.
            before = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(before)

    def save_in(self, file: NetworkFile) -> None:
        """Store the averages as the weights of `file`, and the weights in a separate entry."""
        unaveraged: dict[str, Any] = {}
        # A state dict has a shared parameter under each of its names.
        for name, parameter in self._network.named_parameters(remove_duplicate=False):
            average = self._averages.get(parameter)
            if average is not None and name in file.state:
                unaveraged[name] = file.state[name]
                file.state[name] = average
        file.unaveraged_state = unaveraged

    @torch.no_grad()
    def restart(self) -> None:
        """Reset the averages to the network's current weights."""
        for parameter, average in self._averages.items():
            average.copy_(parameter)


@torch.no_grad()
def load_unaveraged(network: nn.Module, weights: Mapping[str, Any]) -> None:
    """Load the entry written by `WeightAverage.save_in` into the network.

    Raises:
        AsdfError: the entry is of another network; `network` is then unchanged.
    """
    parameters = dict(network.named_parameters(remove_duplicate=False))
    for name, value in weights.items():
        if name not in parameters or parameters[name].shape != getattr(value, "shape", None):
            raise AsdfError(
                f"the checkpoint's entry of weights before averaging has {name!r}, which does not "
                "fit the network. The file is damaged: resume from another (network.resume_epoch)."
            )
    for name, value in weights.items():
        parameters[name].copy_(value)


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
        return [] if self._number is None else [self._number.double()]

    def is_sound(self, numbers: list[float]) -> bool:
        """Return whether training may continue after the step, whose `numbers` are counted once."""
        self._number = None
        for number in numbers:
            if self.loss_scale is None:
                return math.isfinite(number)
            was_skipped = number < self.loss_scale
            self.loss_scale = number
            self.skipped += was_skipped
            self._in_a_row = self._in_a_row + 1 if was_skipped else 0
        return self._in_a_row < MAX_SKIPPED

    def take_skipped(self) -> int:
        """Return the number of steps skipped since the last call."""
        skipped, self.skipped = self.skipped, 0
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
                f"{advice} If it recurs with others, the cause is more likely a kernel of this "
                "GPU: see `python -m asdf doctor`, and try another version of torch."
            )
        return (
            f"fp16 skipped {MAX_SKIPPED} steps in a row, the last one {self._name}: their "
            f"gradients are not finite, with a loss scale of {self.loss_scale:g}. Set "
            "computing.precision='bf16', where the GPU supports it, or 'fp32'."
        )


class WeightUpdate:
    """The change of the weights by their gradient: optimiser, schedule, loss scale and average.

    Attributes:
        average: Average of the weights; None without `network.ema_decay`, and before its begin.
        last: Latest step, until its gradient is known to be finite.
        measures_gradient: Whether `step` returns the norm of the gradient.
    """

    def __init__(
        self,
        network: nn.Module,
        settings: Sections,
        precision: Precision,
        folder: Path | None = None,
    ) -> None:
        """Prepare to train `network`, which has all parameters of the loss and of further heads.

        Raises: as `build_optimiser` and `find_schedule`.
        """
        self.optimiser = build_optimiser(network, settings, folder)
        self.schedule = find_schedule(settings, folder)
        self.scaler = precision.scaler()
        self.average: WeightAverage | None = None
        self.last = LastStep(self.scaler, precision.device)
        self.measures_gradient = False
        self._network = network
        self._settings = settings
        self._device = precision.device

    def begin_average(self) -> None:
        """Begin the average, if one is wanted, with the weights that the network has now."""
        decay = self._settings.network.ema_decay
        self.average = None if decay is None else WeightAverage(self._network, decay)

    def load_state(self, checkpoint: NetworkFile) -> None:
        """Load the state that a checkpoint holds besides the network's weights.

        Raises:
            AsdfError: the checkpoint is of another optimiser, or its weights before averaging do
                not fit.
        """
        # A file without an optimiser's state is refused like one of another optimiser.
        load_optimiser_state(self.optimiser, checkpoint.optimiser_state or {"param_groups": []})
        # Empty if the run has trained without a loss scale so far.
        if checkpoint.scaler_state:
            self.scaler.load_state_dict(checkpoint.scaler_state)
            self.last = LastStep(self.scaler, self._device)
        if self.average is not None:
            self.average.restart()
        if checkpoint.unaveraged_state is not None:
            load_unaveraged(self._network, checkpoint.unaveraged_state)

    def trained_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that get a gradient now."""
        groups = self.optimiser.param_groups
        return [each for group in groups for each in group["params"] if each.requires_grad]

    def set_rate(self, progress: Progress, size: int) -> float:
        """Set the learning rate of the next step; arguments and result as `set_learning_rate`."""
        return set_learning_rate(self.optimiser, self.schedule, self._settings, progress, size)

    def step(self, name: str) -> Tensor | None:
        """Let the optimiser take the step `name`; return the gradient's norm if it is measured."""
        measured = None
        if self.measures_gradient:
            measured = nn.utils.get_total_norm(self._gradients())
            if self.scaler.is_enabled():
                # On the device, since reading the scale would make the host wait.
                measured = measured / self.scaler.scale(torch.ones_like(measured))
        limit = self._settings.network.gradient_clip_norm
        norm = None
        if limit is not None:
            # The limit applies to the true gradient, without the loss scale.
            self.scaler.unscale_(self.optimiser)
            norm = nn.utils.clip_grad_norm_(self._network.parameters(), limit)
        elif not self.scaler.is_enabled():
            # Unlike a 2-norm, the maximum cannot overflow if every value is finite. With fp16, the
            # scaler examines the gradient itself.
            norm = nn.utils.get_total_norm(self._gradients(), math.inf)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.last.note(name, norm)
        return measured

    def _gradients(self) -> list[Tensor]:
        """Return the gradients of the parameters; a single zero if there are none."""
        parameters = self.trained_parameters()
        gradients = [each.grad for each in parameters if each.grad is not None]
        return gradients or [torch.zeros(1, device=self._device)]

    def finish(self) -> None:
        """Update the average with the new weights, and remove the gradient."""
        if self.average is not None:
            self.average.update()
        # None rather than zero, since `GraphedPasses` needs each step to begin without gradients.
        self.optimiser.zero_grad(set_to_none=True)
