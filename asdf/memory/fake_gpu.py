"""A GPU for a program whose memory is to be known: tensors have shapes and formats, and no numbers.

Invariant: nothing is computed and no memory is taken, and neither a GPU nor a torch built for one
is needed. The tensors of a pass are those that it makes on a GPU. To torch they are tensors of the
CPU; where its operations for the CPU make others than those for a GPU, the latter's way is written
here: number formats under autocast, attention, dropout, linear layers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import Function
from torch.nn.functional import pad
from torch.utils._pytree import tree_map

from asdf.memory.live_bytes import LiveBytes

# What autocast computes in float32 on a GPU, and in the format of its inputs on a CPU, as
# operations are named in torch's dispatcher. Those of the second list read the shorter format
# themselves.
IN_FLOAT32 = (
    *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2"),
    *("pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "reciprocal", "rsqrt", "sinh", "tan"),
    *("group_norm", "layer_norm", "native_layer_norm", "rms_norm", "softplus", "logsumexp"),
    *("norm.Scalar", "norm.ScalarOpt_dim", "linalg_vector_norm", "cosine_similarity", "dist"),
)
TO_FLOAT32 = (
    *("softmax.int", "log_softmax.int", "cumprod", "cumsum", "prod", "prod.dim_int"),
    *("sum", "sum.dim_IntList"),
)
_SHORT = (torch.bfloat16, torch.float16)

# Attention copies a mask whose rows do not begin at multiples of this many numbers.
_ALIGNED = 16


@contextmanager
def fake_gpu() -> Iterator[LiveBytes]:
    """Let everything that is made in this block be on a GPU that does not exist.

    Under `torch.autocast("cpu", ...)` operations take the number formats that they take on a GPU.
    For the whole process, as long as the block lasts: it is for programs with nothing else to do.

    Yields:
        The counter of its bytes.
    """
    library = torch.library.Library("aten", "IMPL")
    # torch logs the stack of an operation that does not fit, besides raising the error.
    log = logging.getLogger(FakeTensorMode.__module__)
    was_silent, log.disabled = log.disabled, True
    try:
        for name in IN_FLOAT32:
            _register(library, name, _compute_in_float32(_find_operation(name)), "AutocastCPU")
        for name in TO_FLOAT32:
            _register(library, name, _convert_to_float32(_find_operation(name)), "AutocastCPU")
        _register(library, "scaled_dot_product_attention", _attention, "AutogradCPU")
        _register(library, "dropout", _dropout, "AutogradCPU")
        _register(library, "linear", _linear, "AutogradCPU")
        with torch.random.fork_rng(devices=[]), FakeTensorMode(), LiveBytes() as counted:
            yield counted
    finally:
        log.disabled = was_silent
        library._destroy()


def _register(library: Any, name: str, kernel: Callable[..., Any], key: str) -> None:
    # Those that a later torch may have added to its own list for the CPU are right as they are.
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
        library.impl(name, kernel, key)


def _find_operation(name: str) -> Callable[..., Any]:
    base, _, overload = name.partition(".")
    overloads = getattr(torch.ops.aten, base)
    operation: Callable[..., Any] = getattr(overloads, overload or "default")
    return operation


def _compute_in_float32(operation: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*arguments: Any, **options: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return operation(*tree_map(_lengthen, arguments), **options)

    return kernel


def _convert_to_float32(operation: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
        if tensor.dtype in _SHORT and options.get("dtype") is None:
            options["dtype"] = torch.float32
        with torch.autocast("cpu", enabled=False):
            return operation(tensor, *arguments, **options)

    return kernel


def _lengthen(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype in _SHORT:
        return value.float()
    return value


class _FusedAttention(Function):
    """Attention that never holds the weights of all pairs of frames: flash, memory-efficient."""

    @staticmethod
    def forward(
        ctx: Any, q_BHLE: Tensor, k_BHLE: Tensor, v_BHLE: Tensor, mask: Tensor | None
    ) -> Tensor:
        # In the layout of the queries: what joins the heads again needs no copy.
        if q_BHLE.shape[-1] == v_BHLE.shape[-1]:
            output = torch.empty_like(q_BHLE)
        else:
            output = q_BHLE.new_empty((*q_BHLE.shape[:-1], v_BHLE.shape[-1]))
        sums_BHL = q_BHLE.new_empty(q_BHLE.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(q_BHLE, k_BHLE, v_BHLE, mask, output, sums_BHL)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradients_of_inputs: list[Tensor | None] = []
        inputs = ctx.saved_tensors[:4]
        for tensor, needs_gradient in zip(inputs, ctx.needs_input_grad, strict=True):
            gradient = torch.empty_like(tensor) if needs_gradient else None
            gradients_of_inputs.append(gradient)
        return tuple(gradients_of_inputs)


def _attention(
    q_BHLE: Tensor, k_BHLE: Tensor, v_BHLE: Tensor, mask: Tensor | None = None, *_: Any, **__: Any
) -> Any:
    if mask is not None and any(stride % _ALIGNED for stride in mask.stride()[:-1]):
        frames = mask.shape[-1]
        mask = pad(mask, (0, -frames % _ALIGNED))[..., :frames]
    return _FusedAttention.apply(q_BHLE, k_BHLE, v_BHLE, mask)


def _dropout(tensor: Tensor, probability: float, training: bool) -> Tensor:
    """Compute dropout that holds a byte per value; the CPU's holds a number."""
    if not training or probability == 0:
        return tensor
    dropped: Tensor = torch.native_dropout(tensor, probability, True)[0]
    return dropped


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute a product to which the bias is added in place, as on a GPU.

    To tensors without numbers torch would add it in a copy.
    """
    if bias is None:
        return torch.matmul(x, weight.t())
    rows = torch.addmm(bias, x.reshape(-1, x.shape[-1]), weight.t())
    return rows.view(*x.shape[:-1], len(weight))
