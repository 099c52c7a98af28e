"""The parts of a step window: minibatches, directions, and the passes for losses of whole steps.

A direction is a vector with a number for each trained weight: a gradient, an update, or weights.

Invariant: with a loss that depends on all utterances of the step, the gradient is that of one big
batch, however processes divide it. A first pass without gradients computes the outputs for all
utterances, every rank gathers them and computes the gradient of the loss with respect to each
output, and a second pass computes the same outputs again with the same random numbers and starts
its backward pass from these gradients. The running statistics of batch norm include each clip once.

Shapes: N utterances of a step, B of a minibatch, E numbers in an embedding, 2 classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.training_plan import Share, Window
from asdf.distributed.gpus import send
from asdf.distributed.world import World
from asdf.networks.interface import Outputs
from asdf.networks.output_check import numbers_unchanged
from asdf.training.losses import Targets
from asdf.training.passes import Passes

Factor = float | Tensor


@dataclass(frozen=True)
class Minibatch:
    """A minibatch of this rank.

    Attributes:
        number: Number in the step, counted from 1.
        clips: Waveforms, (B, samples), or cached features.
    """

    number: int
    share: Share
    clips: Tensor
    targets: Targets

    @property
    def indices(self) -> np.ndarray:
        """Indices of its utterances in the training list, (B,)."""
        return self.share.utterances

    @property
    def counted(self) -> int:
        """Number of utterances that count, which precede the fillers for batch norm."""
        return self.share.counted


class Direction:
    """A number for each trained weight.

    It supports addition, subtraction and multiplication like a vector: by a number, by a tensor of
    one number, or elementwise by another direction. Weights without a number, for example without a
    gradient, stay without one.

    Args:
        parameters: Trained parameters of the network.
        values: Numbers of each parameter, in its shape; None for a parameter without numbers.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from asdf.training.steps import Direction
        >>> weights = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
        >>> slope = Direction(weights, [torch.tensor([3.0, 0.0]), torch.tensor([-4.0])])
        >>> slope.norm().item()
        5.0
        >>> (2 * slope - slope * slope).dot(slope).item()
        87.0
    """

    def __init__(self, parameters: Sequence[nn.Parameter], values: Sequence[Tensor | None]) -> None:
        self.parameters = parameters
        self.values = values

    def __add__(self, other: Direction) -> Direction:
        return self._by_weight(other, torch.add)

    def __sub__(self, other: Direction) -> Direction:
        return self._by_weight(other, torch.sub)

    def __mul__(self, factor: Factor | Direction) -> Direction:
        if isinstance(factor, Direction):
            return self._by_weight(factor, torch.mul)
        # A 0-dimensional weight would take on the number format of the factor.
        return self._each(lambda value: (value * factor).to(value.dtype))

    __rmul__ = __mul__

    def __neg__(self) -> Direction:
        return self._each(torch.neg)

    def abs(self) -> Direction:
        """Return the absolute values."""
        return self._each(torch.abs)

    def dot(self, other: Direction) -> Tensor:
        """Return the inner product with `other`, 0-dimensional, in float64, on the device."""
        total = torch.zeros((), dtype=torch.float64, device=self.parameters[0].device)
        for value in (self * other).values:
            if value is not None:
                total += value.sum(dtype=torch.float64)
        return total

    def norm(self) -> Tensor:
        """Return the 2-norm, 0-dimensional, in float64, on the device."""
        return self.dot(self).sqrt()

    def _each(self, function: Callable[[Tensor], Tensor]) -> Direction:
        values = [None if value is None else function(value) for value in self.values]
        return Direction(self.parameters, values)

    def _by_weight(
        self, other: Direction, function: Callable[[Tensor, Tensor], Tensor]
    ) -> Direction:
        values: list[Tensor | None] = []
        for mine, others in zip(self.values, other.values, strict=True):
            has_both = mine is not None and others is not None
            values.append(function(mine, others) if has_both else None)  # type: ignore[arg-type]
        return Direction(self.parameters, values)


def second_derivative(loss: Tensor, direction: Direction) -> list[Tensor]:
    """Return the second derivative of `loss` times `direction`, for each parameter."""
    parameters = list(direction.parameters)
    slopes = torch.autograd.grad(
        loss, parameters, create_graph=True, allow_unused=True, materialize_grads=True
    )
    along = loss.new_zeros(())
    for slope, value in zip(slopes, direction.values, strict=True):
        if value is not None:
            along = along + (slope * value).sum()
    if not along.requires_grad:
        return [torch.zeros_like(parameter) for parameter in parameters]
    products = torch.autograd.grad(along, parameters, allow_unused=True, materialize_grads=True)
    return list(products)


class JointPasses:
    """The second passes over the minibatches of a step, in order."""

    def __init__(
        self,
        passes: Passes,
        minibatches: Sequence[Minibatch],
        window: Window,
        targets: Targets,
        world: World,
        seed: Callable[[int], None],
    ) -> None:
        """Compute the outputs of all utterances of a step, and the gradient of the loss at them.

        All ranks call this together.

        Args:
            targets: Targets of all utterances of `window`, in its order.
            seed: Function that seeds the random numbers for a minibatch number.
        """
        self._passes = passes
        # The positions in the window of the utterances that count.
        rows = []
        outputs = []
        with torch.no_grad(), numbers_unchanged(passes.model):
            for minibatch in minibatches:
                seed(minibatch.number)
                found = passes.outputs(minibatch.clips, minibatch.targets.inputs)
                outputs.append(torch.cat(_in_one_type(found), dim=1))
                positions = minibatch.share.positions[: minibatch.counted] - window.start
                rows.append(send(torch.from_numpy(positions), world.device))
        outputs_NX = outputs[0].new_zeros(len(window.utterances), outputs[0].shape[1])
        for output_BX, rows_B in zip(outputs, rows, strict=True):
            outputs_NX[rows_B] = output_BX[: len(rows_B)]
        # Each row comes from one rank, and adding zeros from the others is exact.
        world.sum_tensor(outputs_NX)
        outputs_NX.requires_grad_()
        joined = Outputs(outputs_NX[:, :-2], outputs_NX[:, -2:])
        losses_N = passes.objective.detection(joined, targets)
        parameters = [each for each in passes.objective.loss.parameters() if each.requires_grad]
        slopes_NX, *of_parameters = torch.autograd.grad(
            losses_N.sum(), [outputs_NX, *parameters], allow_unused=True, materialize_grads=True
        )
        self._left = [(losses_N.detach()[rows_B], slopes_NX[rows_B]) for rows_B in rows]
        # Every rank has computed all of it, and the step sums over the ranks.
        parts = [gradient / world.size for gradient in of_parameters]
        self._parameters = list(zip(parameters, parts, strict=True))

    def forward(self, clips: Tensor, targets: Targets) -> Tensor:
        """Return the losses of the utterances that count, (batch,).

        Their gradient with respect to the outputs is that of the whole step's loss.
        """
        known_B, slopes_BX = self._left.pop(0)
        counted = len(known_B)
        outputs = self._passes.outputs(clips, targets.inputs)
        embeddings_BE, logits_B2 = _in_one_type(outputs)
        by_embeddings_B = (embeddings_BE[:counted] * slopes_BX[:, :-2]).sum(dim=1)
        by_logits_B = (logits_B2[:counted] * slopes_BX[:, -2:]).sum(dim=1)
        along_B = by_embeddings_B + by_logits_B
        # The value of the loss, with the gradient of its linear replacement.
        losses_B = known_B + (along_B - along_B.detach())
        if not self._passes.objective.terms:
            return losses_B
        # Further terms and their gradients concern each utterance separately.
        return self._passes.objective.with_terms(
            losses_B, outputs.first(counted), targets.first(counted)
        )

    def backward(self, losses_B: Tensor, factor: float | Tensor) -> None:
        """Add the gradient of a minibatch; the last one also adds that of the loss's parameters."""
        parts = [losses_B]
        if not self._left:
            for parameter, gradient in self._parameters:
                parts.append((parameter * gradient).sum().reshape(1))
        self._passes.backward(torch.cat(parts), factor)


def _in_one_type(outputs: Outputs) -> tuple[Tensor, Tensor]:
    """Return embeddings (batch, E) and logits (batch, 2) in one type of at least 32 bits."""
    embeddings_BE, logits_B2 = outputs
    kind = torch.promote_types(embeddings_BE.dtype, logits_B2.dtype)
    kind = torch.promote_types(kind, torch.float32)
    return embeddings_BE.to(kind), logits_B2.to(kind)
