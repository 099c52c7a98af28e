"""A fake GPU for estimating memory: tensors have shapes and formats, but no values.

Invariants: nothing is computed and no memory is allocated, without a GPU or a CUDA build of torch.
The tensors of a forward pass are those on a GPU. To torch they are CPU tensors; where torch's CPU
operations create other tensors than those for a GPU, the GPU behaviour is implemented here: number
formats under autocast, attention, dropout, linear layers.

Each storage counts once, however many tensors share it, from its creation to its end, with its size
in torch's GPU allocator: whole blocks of 512 bytes.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import Function
from torch.nn.functional import pad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

BLOCK = 512

# On a GPU these copy inputs that are not contiguous, for the time that they run.
_COPYING = (
    torch.ops.aten.native_layer_norm.default,
    torch.ops.aten.native_layer_norm_backward.default,
    torch.ops.aten.native_group_norm.default,
    torch.ops.aten.native_group_norm_backward.default,
)


class LiveBytes(TorchDispatchMode):
    """Counts the outputs of operations inside the block, forward and backward.

    Temporary memory of an operation is not counted, except for the copies of `_COPYING`.

    Attributes:
        now: Number of bytes that are held.
        peak: Maximum of `now`; set it to `now` to start again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        # Keys of storages; a weak reference works only while someone holds the storage.
        self._held: dict[int, weakref.ref[UntypedStorage]] = {}

    def __torch_dispatch__(
        self,
        operation: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        output = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, Tensor):
                self._note(leaf.untyped_storage())
        if operation in _COPYING:
            self.peak = max(self.peak, self.now + sum(map(_copied_bytes, args)))
        return output

    def _note(self, storage: UntypedStorage) -> None:
        key = storage._cdata
        size = block_bytes(storage)
        if key in self._held:
            return

        def end(_: object) -> None:
            del self._held[key]
            self.now -= size

        self._held[key] = weakref.ref(storage, end)
        self.now += size
        self.peak = max(self.peak, self.now)


def block_bytes(storage: UntypedStorage) -> int:
    """Return the size that the allocator reserves for a storage, in bytes."""
    return -(-storage.nbytes() // BLOCK) * BLOCK


def _copied_bytes(value: object) -> int:
    """Return the size of a contiguous copy in bytes; 0 if the tensor is contiguous."""
    if not isinstance(value, Tensor) or value.is_contiguous():
        return 0
    return value.numel() * value.element_size()


# Operations that autocast computes in float32 on a GPU, and in the format of their inputs on a CPU,
# by their names in torch's dispatcher. Those of the second list read the shorter format themselves.
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

# Attention copies a mask whose rows do not start at multiples of this number of elements.
_ALIGNED = 16


@contextmanager
def fake_gpu() -> Iterator[LiveBytes]:
    """Create everything in this block on a GPU that does not exist.

    Under `torch.autocast("cpu", ...)` operations use the number formats of a GPU. The block affects
    the whole process: it is for programs with nothing else to do.

    Yields:
        Counter of its bytes.
    """
    library = torch.library.Library("aten", "IMPL")
    # torch logs the stack of a failing operation, besides raising the error.
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
    # A later torch may have added some to its own list for the CPU, which is then correct.
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
        ctx: Any,
        q_BHLE: Tensor,
        k_BHLE: Tensor,
        v_BHLE: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        # In the layout of the queries, so that joining the heads needs no copy.
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
    q_BHLE: Tensor,
    k_BHLE: Tensor,
    v_BHLE: Tensor,
    mask: Tensor | None = None,
    *_: Any,
    **__: Any,
) -> Any:
    if mask is not None and any(stride % _ALIGNED for stride in mask.stride()[:-1]):
        frames = mask.shape[-1]
        mask = pad(mask, (0, -frames % _ALIGNED))[..., :frames]
    return _FusedAttention.apply(q_BHLE, k_BHLE, v_BHLE, mask)


def _dropout(tensor: Tensor, probability: float, training: bool) -> Tensor:
    """Compute dropout that holds a byte per value, unlike the CPU version, which holds a float."""
    if not training or probability == 0:
        return tensor
    dropped: Tensor = torch.native_dropout(tensor, probability, True)[0]
    return dropped


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute a product to which the bias is added in place, as on a GPU.

    For tensors without values, torch would add it to a copy.
    """
    if bias is None:
        return torch.matmul(x, weight.t())
    rows = torch.addmm(bias, x.reshape(-1, x.shape[-1]), weight.t())
    return rows.view(*x.shape[:-1], len(weight))
