"""A GPU for a program that is only to be looked at: tensors have a shape and a number format, and no numbers.

Invariant: nothing is computed and no memory is taken, and neither a GPU nor a torch built for one is
needed. The tensors of a pass are those that it makes on a GPU. To torch they are tensors of the
CPU; where its operations for the CPU make others than those for a GPU, the latter's way is written
here: number formats under autocast, attention, dropout, linear layers.
"""

from __future__ import annotations

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

# What autocast computes in float32 on a GPU, and in the format of its inputs on a CPU, as operations
# are named in torch's dispatcher. Those of the second list read the shorter format themselves.
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

# Attention copies a mask into rows of so many numbers, where they are not.
_ALIGNED = 16


@contextmanager
def fake_gpu() -> Iterator[LiveBytes]:
    """Let everything that is made in this block be on a GPU that there is not.

    Under `torch.autocast("cpu", ...)` operations take the number formats that they take on a GPU. For
    the whole process, as long as the block lasts: it is for programs with nothing else to do.

    Yields:
        Counts the bytes of it.
    """
    library = torch.library.Library("aten", "IMPL")
    try:
        for names, wrap in ((IN_FLOAT32, _in_float32), (TO_FLOAT32, _to_float32)):
            for name in names:
                _register(library, name, wrap(_operation(name)), "AutocastCPU")
        _register(library, "scaled_dot_product_attention", _attention, "AutogradCPU")
        _register(library, "dropout", _dropout, "AutogradCPU")
        _register(library, "linear", _linear, "AutogradCPU")
        with torch.random.fork_rng(devices=[]), FakeTensorMode(), LiveBytes() as counted:
            yield counted
    finally:
        library._destroy()


def _register(library: Any, name: str, kernel: Callable[..., Any], key: str) -> None:
    # Those that a later torch may have added to its own list for the CPU are right as they are.
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
        library.impl(name, kernel, key)


def _operation(name: str) -> Callable[..., Any]:
    base, _, overload = name.partition(".")
    operation: Callable[..., Any] = getattr(getattr(torch.ops.aten, base), overload or "default")
    return operation


def _in_float32(operation: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*arguments: Any, **options: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return operation(*tree_map(_lengthened, arguments), **options)

    return kernel


def _to_float32(operation: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
        if tensor.dtype in _SHORT and options.get("dtype") is None:
            options["dtype"] = torch.float32
        with torch.autocast("cpu", enabled=False):
            return operation(tensor, *arguments, **options)

    return kernel


def _lengthened(value: Any) -> Any:
    is_short = isinstance(value, Tensor) and value.dtype in _SHORT
    return value.float() if is_short else value


class _FusedAttention(Function):
    """Attention that never holds the weights of all pairs of frames: flash and memory-efficient attention."""

    @staticmethod
    def forward(
        ctx: Any, q_BHLE: Tensor, k_BHLE: Tensor, v_BHLE: Tensor, mask: Tensor | None
    ) -> Tensor:
        # In the layout of the queries: what joins the heads again needs no copy.
        same = q_BHLE.shape[-1] == v_BHLE.shape[-1]
        shape = (*q_BHLE.shape[:-1], v_BHLE.shape[-1])
        output = torch.empty_like(q_BHLE) if same else q_BHLE.new_empty(shape)
        sums_BHL = q_BHLE.new_empty(q_BHLE.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(q_BHLE, k_BHLE, v_BHLE, mask, output, sums_BHL)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        inputs = ctx.saved_tensors[:4]
        wanted = zip(inputs, ctx.needs_input_grad, strict=True)
        return tuple(torch.empty_like(one) if needs else None for one, needs in wanted)


def _attention(
    q_BHLE: Tensor, k_BHLE: Tensor, v_BHLE: Tensor, mask: Tensor | None = None, *_: Any, **__: Any
) -> Any:
    if mask is not None and mask.shape[-1] % _ALIGNED:
        frames = mask.shape[-1]
        mask = pad(mask, (0, -frames % _ALIGNED))[..., :frames]
    return _FusedAttention.apply(q_BHLE, k_BHLE, v_BHLE, mask)


def _dropout(tensor: Tensor, probability: float, training: bool) -> Tensor:
    """Dropout that holds a byte per value; the CPU's holds a number."""
    if not training or probability == 0:
        return tensor
    dropped: Tensor = torch.native_dropout(tensor, probability, True)[0]
    return dropped


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A product to which the bias is added in place; to tensors without numbers torch adds it in a copy."""
    if bias is None:
        return torch.matmul(x, weight.t())
    rows = torch.addmm(bias, x.reshape(-1, x.shape[-1]), weight.t())
    return rows.view(*x.shape[:-1], len(weight))
