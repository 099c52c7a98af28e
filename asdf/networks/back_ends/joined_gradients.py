"""Operations of AASIST's joined branches whose gradients are a GPU's fewest operations.

Invariant: values and gradients of torch's operations, up to the rounding of float32. Torch computes
a gradient by adding up parts, by copies for another order in memory, and into zeros: here it is
written out, in the order in which its parameter lies in memory.

Shapes: G branches; X matrices or rows; M, K, N sizes of matrices; J nodes; C values coming in, R
going out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from asdf.networks.products import multiply


class MatrixProducts(torch.autograd.Function):
    """Products of matrices (X, M, K) and (X, K, N)."""

    @staticmethod
    def forward(ctx: Any, first_XMK: Tensor, second_XKN: Tensor) -> Tensor:
        ctx.save_for_backward(first_XMK, second_XKN)
        return multiply(first_XMK, second_XKN)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_XMN: Tensor) -> tuple[Tensor, Tensor]:
        first_XMK, second_XKN = ctx.saved_tensors
        of_first_XMK = multiply(gradient_XMN, second_XKN.mT)
        return of_first_XMK, multiply(first_XMK.mT, gradient_XMN)


class LinearMaps(torch.autograd.Function):
    """A linear map of each branch: (G, X, C) by weights (G, R, C), and what is added (G, 1, R)."""

    @staticmethod
    def forward(ctx: Any, x_GXC: Tensor, weight_GRC: Tensor, added_G1R: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_GXC, weight_GRC)
        if added_G1R is None:
            return multiply(x_GXC, weight_GRC.mT)
        return torch.baddbmm(added_G1R, x_GXC, weight_GRC.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_GXR: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x_GXC, weight_GRC = ctx.saved_tensors
        of_x_GXC = multiply(gradient_GXR, weight_GRC)
        of_weight_GRC = multiply(gradient_GXR.mT, x_GXC)
        adds = ctx.needs_input_grad[2]
        return of_x_GXC, of_weight_GRC, gradient_GXR.sum(1, keepdim=True) if adds else None


class PairProducts(torch.autograd.Function):
    """The product of every pair of nodes: (..., J, C) to (..., J, J, C).

    Its gradient is to be the same in both directions, as behind `Symmetric`: then half of it need
    not be read, and these are a graph's largest tensors.
    """

    @staticmethod
    def forward(ctx: Any, x_JC: Tensor) -> Tensor:
        ctx.save_for_backward(x_JC)
        return x_JC.unsqueeze(-2) * x_JC.unsqueeze(-3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_JJC: Tensor) -> Tensor:
        (x_JC,) = ctx.saved_tensors
        # A node is the first of its pairs and the second.
        of_x_JC: Tensor = (gradient_JJC * x_JC.unsqueeze(-3)).sum(-2).mul_(2)
        return of_x_JC


class Symmetric(torch.autograd.Function):
    """Scores (..., J, J) that are the same in both directions, and then their gradient is."""

    @staticmethod
    def forward(ctx: Any, scores_JJ: Tensor) -> Tensor:
        return scores_JJ.view_as(scores_JJ)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_JJ: Tensor) -> Tensor:
        return gradient_JJ.lerp(gradient_JJ.mT, 0.5)


class Pick(torch.autograd.Function):
    """One of the values of a dimension, as `index` says.

    Args:
        index: Index of each, of size 1 in the dimension, one of the last of `values`.
        picked: True where an index is, of the dimension's size.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, picked: Tensor) -> Tensor:
        ctx.save_for_backward(picked)
        ctx.dim = -index.dim() + list(index.shape).index(1, 1)
        shape = list(values.shape)
        shape[ctx.dim] = 1
        return values.gather(ctx.dim, index.expand(shape)).squeeze(ctx.dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (picked,) = ctx.saved_tensors
        return gradient.unsqueeze(ctx.dim) * picked, None, None
