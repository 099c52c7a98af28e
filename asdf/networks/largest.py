"""Largest values of a dimension, with few operations for a GPU.

Invariant: of several that are equally large one gets the gradient on a GPU, and on a CPU, whose
operations are torch's, each gets a part of it.

Shapes: N numbers of any shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from asdf.networks.cpu_gradients import is_on_cpu


def largest(x: Tensor, dim: int) -> Tensor:
    """Return the largest values of a dimension."""
    if is_on_cpu(x):
        return x.amax(dim=dim)
    result: Tensor = _Largest.apply(x, dim)
    return result


def largest_magnitudes(x: Tensor, dims: Sequence[int]) -> tuple[Tensor, ...]:
    """Return the largest magnitudes of each of `dims`, by itself."""
    if is_on_cpu(x):
        magnitudes = x.abs()
        return tuple(magnitudes.amax(dim=dim) for dim in dims)
    results: tuple[Tensor, ...] = _LargestMagnitudes.apply(x, dims)
    return results


class _Largest(torch.autograd.Function):
    """Of torch's gradient the zeros are copied before anything is written to them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        values, index = x.max(dim=dim, keepdim=True)
        ctx.save_for_backward(x, index)
        ctx.dim = dim
        return values.squeeze(dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        x, index = ctx.saved_tensors
        of_x = torch.zeros_like(x)
        source = gradient.unsqueeze(ctx.dim)
        return of_x.scatter_(ctx.dim, index, source), None


class _LargestMagnitudes(torch.autograd.Function):
    """All results are taken from the same magnitudes, whose sign is multiplied once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: Sequence[int]) -> tuple[Tensor, ...]:
        magnitudes = x.abs()
        largest_of: list[Tensor] = []
        indices: list[Tensor] = []
        for dim in dims:
            values, index = magnitudes.max(dim=dim, keepdim=True)
            largest_of.append(values.squeeze(dim))
            indices.append(index)
        ctx.save_for_backward(x, *indices)
        ctx.dims = dims
        return tuple(largest_of)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, *indices = ctx.saved_tensors
        of_x = torch.zeros_like(x)
        for dim, index, gradient in zip(ctx.dims, indices, gradients, strict=True):
            source = gradient.unsqueeze(dim)
            of_x.scatter_add_(dim, index, source)
        signs = x.sgn()
        return of_x.mul_(signs), None
