"""Functions computed by other operations than torch's, with their gradients.

Invariant: equal to torch's operations up to the rounding of float32, and to themselves in each run.
Most are chosen only where a graph of gradients is built on a CPU: a GPU has a kernel for each of
these, and scoring its packed layers (`asdf.networks.packed`). The largest values of a dimension are
for a GPU, which needs few operations for them; of several that are equally large one gets the
gradient there, and on a CPU, whose operations are torch's, each gets a part of it.

Shapes: B utterances, N nodes of a graph, P pairs of them, C values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from asdf.networks.fast_selu import ALPHA, SCALE, selu, tanh
from asdf.networks.traced_sizes import is_traced

# Pairs of a short recording's nodes take as long to make as their scores: 0.7 MB at most, each.
_REMEMBERED_NODES = 200
_REMEMBERED_SIZES = 32

_Function = Callable[[Tensor], Tensor]
# Of the gradient of the result, and the result.
_Gradient = Callable[[Tensor, Tensor], Tensor]


def is_on_cpu(x: Tensor) -> bool:
    """Return whether a tensor is a CPU's; one without numbers (`asdf.memory`) is like a GPU's."""
    return x.device.type == "cpu" and type(x) in (Tensor, nn.Parameter)


def learns_on_cpu(x: Tensor) -> bool:
    """Return whether gradients of what follows `x` will be computed on a CPU, in float32."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or is_traced():
        return False
    return is_on_cpu(x) and x.dtype is torch.float32


class LearningSELU(nn.SELU):
    """SELU whose exponential is not exact near 0 to the last digit, and takes a fifth of the time.

    So it does where it learns; elsewhere it is torch's.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return SELU of a tensor of any shape."""
        if not learns_on_cpu(x):
            return super().forward(x)
        result: Tensor = _FromResult.apply(x, selu, _selu_gradient)
        return result


class LearningTanh(nn.Tanh):
    """The hyperbolic tangent by the logistic function, a quarter of the time, where it learns."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the hyperbolic tangent of a tensor of any shape."""
        if not learns_on_cpu(x):
            return super().forward(x)
        result: Tensor = _FromResult.apply(x, tanh, torch.ops.aten.tanh_backward)
        return result


class _FromResult(torch.autograd.Function):
    """A function of one tensor whose gradient follows from its result."""

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
    # The slope is SCALE, or below 0 the result and SCALE * ALPHA.
    result: Tensor = torch.ops.aten.elu_backward(gradient, ALPHA, SCALE, 1.0, True, y)
    return result


class Pairs(NamedTuple):
    """The pairs of nodes, each once, also of a node with itself.

    Attributes:
        first_P, second_P: the nodes' numbers; those of the first are never above the second's.
        position_NN: the pair's position, the same for both orders of the nodes.
    """

    first_P: Tensor
    second_P: Tensor
    position_NN: Tensor

    @staticmethod
    def of(nodes: int) -> Pairs:
        """Return the pairs of so many nodes."""
        return _recall_pairs(nodes) if nodes <= _REMEMBERED_NODES else _make_pairs(nodes)

    def multiply(self, x_BNC: Tensor) -> Tensor:
        """Return the product of each pair, (batch, pairs, values): half as many as of edges."""
        return x_BNC.index_select(1, self.first_P) * x_BNC.index_select(1, self.second_P)

    def spread(self, scores_BP: Tensor) -> Tensor:
        """Return what each edge has of its pair, (batch, nodes, nodes)."""
        edges_BX = scores_BP.index_select(1, self.position_NN.flatten())
        return edges_BX.view(len(scores_BP), *self.position_NN.shape)

    def spread_kinds(self, scores_BP3: Tensor, nodes: int) -> Tensor:
        """Return what each edge has of its pair and kind, (batch, nodes, nodes).

        Args:
            scores_BP3: for each number of nodes that do not belong to the first graph.
            nodes: Nodes of the first graph.
        """
        kind_P = (self.first_P >= nodes).long() + (self.second_P >= nodes).long()
        kind_BP1 = kind_P.expand(len(scores_BP3), -1).unsqueeze(2)
        return self.spread(scores_BP3.gather(2, kind_BP1).squeeze(2))


def _make_pairs(nodes: int) -> Pairs:
    # Made for inference, they could not be used in training later.
    with torch.inference_mode(False):
        first_P, second_P = torch.triu_indices(nodes, nodes).unbind()
        position_NN = torch.empty(nodes, nodes, dtype=torch.long)
        positions_P = torch.arange(len(first_P))
        position_NN[first_P, second_P] = positions_P
        position_NN[second_P, first_P] = positions_P
    return Pairs(first_P, second_P, position_NN)


_recall_pairs = lru_cache(_REMEMBERED_SIZES)(_make_pairs)


def softmax_mean(x: Tensor, scores: Tensor, dim: int) -> Tensor:
    """Return the mean of `x` over `dim`, weighted by the softmax of `scores` of the same shape.

    Args:
        x: (batch, channels, height, width).
        dim: -1 or -2.
    """
    if not learns_on_cpu(x):
        if scores.is_contiguous() or not scores.is_contiguous(memory_format=torch.channels_last):
            return (x * scores.softmax(dim=dim)).sum(dim=dim)
        # In the order in memory a softmax over positions takes half of the time.
        last = dim - 1
        weights = scores.movedim(1, -1).softmax(dim=last)
        return (x.movedim(1, -1) * weights).sum(dim=last).movedim(-1, 1)
    # A softmax over a short last dimension is computed value by value.
    powers = (scores - scores.detach().amax(dim=dim, keepdim=True)).exp()
    return (x * powers).sum(dim=dim) / powers.sum(dim=dim)


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
