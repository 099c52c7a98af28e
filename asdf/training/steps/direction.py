"""A vector with a number for each trained weight: a gradient, an update, or the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Factor = float | Tensor


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
