"""Functions computed faster than by torch's operations, with their gradients.

Invariant: equal to torch's results up to the rounding of float32 (SELU and tanh within 1e-6), and
deterministic. Most functions are for CPUs: where gradients are needed, and in packed layers
(an engine); GPUs have a kernel for each of them. The maximum over a dimension is for GPUs,
where it takes few operations: one of several equal maxima gets the gradient there, whereas on a
CPU, with torch's operations, all share it.

SELU is computed in existing memory with the exponential function to base two. Torch computes exp(x)
- 1 with a function that is also exact near 0, which takes ten times as long and changes no score.

Source: Klambauer et al., "Self-Normalizing Neural Networks", NeurIPS 2017, for SELU's constants.

Shapes: N numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from asdf.networks.traced_sizes import is_traced

SCALE = 1.0507009873554805
ALPHA = 1.6732632423543772
LOG2_E = 1 / math.log(2)
# The slope for values that were multiplied by log2(e) before.
_SLOPE = math.log(2) / ALPHA
# Numbers per block: with their exponentials they fit into a core's L2 cache.
_BLOCK = 2**17

_Function = Callable[[Tensor], Tensor]
# A function of the gradient of the result, and the result.
_Gradient = Callable[[Tensor, Tensor], Tensor]


def is_on_cpu(x: Tensor) -> bool:
    """Return whether a tensor is on the CPU; one without numbers counts as GPU."""
    return x.device.type == "cpu" and type(x) in (Tensor, nn.Parameter)


def learns_on_cpu(x: Tensor) -> bool:
    """Return whether gradients of results of `x` will be computed on a CPU, in float32."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or is_traced():
        return False
    return is_on_cpu(x) and x.dtype is torch.float32


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent of a tensor, which is not changed."""
    return torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)


def selu(x: Tensor) -> Tensor:
    """Return SELU of a float32 tensor in the same memory layout; the tensor is not changed."""
    # A new tensor is dense, whatever the layout of `x`.
    y = unscaled_selu_(torch.mul(x, LOG2_E))
    return y.sub_(1).mul_(SCALE * ALPHA)


def unscaled_selu_(x: Tensor) -> Tensor:
    """Turn log2(e) * v into 1 + SELU(v) / (SCALE * ALPHA), in place, and return it.

    The neighbouring layers include the three constants in their weights.

    Args:
        x: Tensor that is dense in memory, in any order of its dimensions.
    """
    if x.numel() <= _BLOCK:
        _unscale(x, torch.empty_like(x))
        return x
    flat_N = x.as_strided((x.numel(),), (1,), x.storage_offset())
    buffer_N = torch.empty(_BLOCK)
    for block_N in flat_N.split(_BLOCK):
        _unscale(block_N, buffer_N[: len(block_N)])
    return x


def _unscale(x: Tensor, powers: Tensor) -> None:
    """Change `x` in place; `powers`, of the same shape, is overwritten."""
    torch.clamp(x, max=0, out=powers).exp2_()
    x.clamp_(min=0)
    torch.add(powers, x, alpha=_SLOPE, out=x)


class PackedSelu(nn.Module):
    """`nn.SELU`, computed by `selu`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return SELU of a tensor of any shape, which is not changed."""
        if x.dtype is not torch.float32:
            return nn.functional.selu(x)
        return selu(x)


class PackedTanh(nn.Module):
    """`nn.Tanh`, computed by the logistic function, which is four times as fast."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the hyperbolic tangent of a tensor of any shape, which is not changed."""
        if x.dtype is not torch.float32:
            return torch.tanh(x)
        return tanh(x)


class LearningSELU(nn.SELU):
    """SELU with an exponential that is less exact near 0 but takes a fifth of the time.

    This is used where gradients are needed; elsewhere it is torch's SELU.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return SELU of a tensor of any shape."""
        if not learns_on_cpu(x):
            return super().forward(x)
        result: Tensor = _FromResult.apply(x, selu, _selu_gradient)
        return result


class LearningTanh(nn.Tanh):
    """The hyperbolic tangent, computed by the logistic function where gradients are needed."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the hyperbolic tangent of a tensor of any shape."""
        if not learns_on_cpu(x):
            return super().forward(x)
        result: Tensor = _FromResult.apply(x, tanh, torch.ops.aten.tanh_backward)
        return result


class _FromResult(torch.autograd.Function):
    """A function of one tensor whose gradient is computed from its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, function: _Function, gradient: _Gradient) -> Tensor:
        y = function(x)
        ctx.save_for_backward(y)
        ctx.gradient = gradient
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (y,) = ctx.saved_tensors
        return ctx.gradient(gradient, y), None, None


def _selu_gradient(gradient: Tensor, y: Tensor) -> Tensor:
    # The slope is SCALE, or for values below 0 the result plus SCALE * ALPHA.
    result: Tensor = torch.ops.aten.elu_backward(gradient, ALPHA, SCALE, 1.0, True, y)
    return result


def softmax_mean(x: Tensor, scores: Tensor, dim: int) -> Tensor:
    """Return the mean of `x` over `dim`, weighted by the softmax of `scores` of the same shape.

    Args:
        x: Tensor (batch, channels, height, width).
        dim: Dimension of the mean, -1 or -2.
    """
    if not learns_on_cpu(x):
        if scores.is_contiguous() or not scores.is_contiguous(memory_format=torch.channels_last):
            return (x * scores.softmax(dim=dim)).sum(dim=dim)
        # In memory order, a softmax over positions takes half of the time.
        last = dim - 1
        weights = scores.movedim(1, -1).softmax(dim=last)
        return (x.movedim(1, -1) * weights).sum(dim=last).movedim(-1, 1)
    # torch computes a softmax over a short last dimension value by value.
    # Large scores would overflow without it; it cancels out, so it needs no gradient.
    powers = (scores - scores.detach().amax(dim=dim, keepdim=True)).exp()
    return (x * powers).sum(dim=dim) / powers.sum(dim=dim)


def largest(x: Tensor, dim: int) -> Tensor:
    """Return the maximum over a dimension."""
    if is_on_cpu(x):
        return x.amax(dim=dim)
    result: Tensor = _Largest.apply(x, dim)
    return result


def largest_magnitudes(x: Tensor, dims: Sequence[int]) -> tuple[Tensor, ...]:
    """Return the maximum magnitude over each of `dims` separately."""
    if is_on_cpu(x):
        magnitudes = x.abs()
        return tuple(magnitudes.amax(dim=dim) for dim in dims)
    results: tuple[Tensor, ...] = _LargestMagnitudes.apply(x, dims)
    return results


class _Largest(torch.autograd.Function):
    """The maximum over a dimension, whose backward pass avoids a copy of torch's zeros."""

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
    """Maximum magnitudes over several dimensions, from one computation of the magnitudes."""

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
            # Added, since one number may be the largest over several dimensions.
            of_x.scatter_add_(dim, index, source)
        signs = x.sgn()
        return of_x.mul_(signs), None
