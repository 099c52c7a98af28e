"""Functions on tensors that torch lacks, or computes more slowly: for tracers, CPUs and GPUs.

Invariant: outside a tracer, results are torch's up to the rounding of float32 (SELU and tanh within
1e-6), with their gradients, and deterministic. In a tracer, a size is a tensor, and `int`, `min`,
`max`, a comparison or `unfold` would turn it into a constant: the graph would silently score other
lengths wrongly. The functions of sizes become part of the graph instead.

SELU, tanh and the softmax are for CPUs, where gradients are needed, and in packed layers (an
engine); products of many terms are for GPUs.

SELU is computed in existing memory with the exponential function to base two. Torch computes exp(x)
- 1 with a function that is also exact near 0, which takes ten times as long and changes no score.

Source: Klambauer et al., "Self-Normalizing Neural Networks", NeurIPS 2017, for SELU's constants.

Shapes: B utterances, T samples, L frames, W samples of a window, P hops of H samples; X matrices;
M, K, N their sizes; S parts of a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

VARIANCE_FLOOR = 1e-5
"""Number that a layer norm adds to the variance before taking its root."""

# A size: an int, or in a tracer a tensor that stands for one, which torch's types do not express.
Size = Any


def is_traced() -> bool:
    """Return whether a tracer is recording the computation."""
    traced: bool = torch.jit.is_tracing()  # type: ignore[attr-defined]
    return traced or torch.compiler.is_exporting()


def at_least(size: Size, lowest: int) -> Size:
    """Return the larger of two sizes."""
    return size.clamp(min=lowest) if isinstance(size, Tensor) else max(size, lowest)


def at_most(size: Size, highest: int) -> Size:
    """Return the smaller of two sizes."""
    return size.clamp(max=highest) if isinstance(size, Tensor) else min(size, highest)


def share(size: Size, ratio: float) -> Size:
    """Return ratio * size, rounded down."""
    # In float64, like Python's numbers: float32 would round other products up to whole numbers.
    return (size.double() * ratio).long() if isinstance(size, Tensor) else int(size * ratio)


def windows(x_BT: Tensor, window: int, hop: int) -> Tensor:
    """Return the whole windows that begin every `hop` samples: (batch, frames, window)."""
    if not is_traced():
        return x_BT.unfold(1, window, hop)
    # Whole hops side by side: indices of single samples take a runtime five times as long.
    frames = (x_BT.shape[1] - window) // hop + 1
    parts = -(-window // hop)
    padded_BT = F.pad(x_BT, (0, parts * hop))[:, : (frames - 1 + parts) * hop]
    hops_BPH = padded_BT.reshape(x_BT.shape[0], -1, hop)
    shifted = [hops_BPH[:, first : first + frames] for first in range(parts)]
    return torch.cat(shifted, dim=2)[:, :, :window]


def normalize_rows(x_BT: Tensor, floor: float = VARIANCE_FLOOR) -> Tensor:
    """Return each row normalised to mean 0 and variance 1, like a layer norm over all its values.

    Args:
        floor: Number added to the variances.
    """
    if not is_traced():
        return F.layer_norm(x_BT, [x_BT.shape[1]], eps=floor)
    # In a graph, a layer norm has a constant size.
    centred_BT = x_BT - x_BT.mean(dim=1, keepdim=True)
    variance_B1 = centred_BT.square().mean(dim=1, keepdim=True)
    return centred_BT / (variance_B1 + floor).sqrt()


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
        return _FromResult.apply(x, selu, _selu_gradient)


class LearningTanh(nn.Tanh):
    """The hyperbolic tangent, computed by the logistic function where gradients are needed."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the hyperbolic tangent of a tensor of any shape."""
        if not learns_on_cpu(x):
            return super().forward(x)
        return _FromResult.apply(x, tanh, torch.ops.aten.tanh_backward)


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
    return torch.ops.aten.elu_backward(gradient, ALPHA, SCALE, 1.0, True, y)


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


# Number of terms from which a product is computed as a sum of products, and terms of each part.
_LONG, _PART = 8192, 1024
_MOST_PARTS = 64


def multiply(first_XMK: Tensor, second_XKN: Tensor) -> Tensor:
    """Return the matrix products of (X, M, K) and (X, K, N)."""
    if first_XMK.shape[2] == 1:
        # Torch 2.14 computes outer products with Triton, which needs a C compiler on the machine.
        return first_XMK * second_XKN
    return torch.bmm(first_XMK, second_XKN)


def multiply_long(first_XMK: Tensor, second_XKN: Tensor) -> Tensor:
    """Return the matrix products of (X, M, K) and (X, K, N) for a very large K.

    A GPU assigns each part of the result to one multiprocessor: a small result with 60,000 terms
    leaves most of them idle, and takes 20 times as long as a sum of several products.
    """
    terms = first_XMK.shape[2]
    parts = 1
    if terms >= _LONG:
        # The largest number of equal parts that are long enough.
        parts = min(_MOST_PARTS, terms // _PART)
        while terms % parts:
            parts -= 1
    if parts == 1:
        return multiply(first_XMK, second_XKN)
    first_XMSK = first_XMK.unflatten(2, (parts, -1))
    first_XSMK = first_XMSK.transpose(1, 2)
    second_XSKN = second_XKN.unflatten(1, (parts, -1))
    products = torch.bmm(first_XSMK.flatten(0, 1), second_XSKN.flatten(0, 1))
    products_XSMN = products.unflatten(0, (-1, parts))
    return products_XSMN.sum(1)


def is_plain(module: nn.Module) -> bool:
    """Return whether a module has no hooks that watch or change its computation."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    # A method set on the object, as by `weights_cast_together`, replaces that of the class.
    return not any(hooks) and "forward" not in vars(module)
