"""TF32 on a CPU: float32 products whose operands are reduced to TF32's precision.

A tensor core reads 10 of the 23 explicit bits of a float32's mantissa, multiplies exactly and adds
in float32. Kernels either round to those bits or let the hardware ignore the others, which is
rounding toward zero; it is not documented which of these a kernel of cuBLAS or cuDNN does, so both
are available here. Attention is rounded too, although the float32 kernels of torch's attention do
not use TF32: the measured loss is larger than on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from asdf.errors import UsageError

_DROPPED = 13
_ATEN = torch.ops.aten
# By the positions of their factors; a bias is added in float32.
_FACTORS = {
    _ATEN.mm.default: (0, 1),
    _ATEN.bmm.default: (0, 1),
    _ATEN.addmm.default: (1, 2),
    _ATEN.baddbmm.default: (1, 2),
    _ATEN.addbmm.default: (1, 2),
    _ATEN.convolution.default: (0, 1),
}
# They multiply internally, where operands cannot be rounded.
_CLOSED = ("rnn_layer", "_scaled_dot_product", "_native_multi_head", "_encoder_layer")


def round_to_tf32(x: Tensor, nearest: bool = True) -> Tensor:
    """Return float32 numbers with the 10 explicit bits of mantissa of TF32.

    Args:
        nearest: Whether to round to the nearest number, ties to even; otherwise toward zero.
    """
    bits = x.view(torch.int32)
    if nearest:
        is_odd = (bits >> _DROPPED) & 1
        bits = bits + ((1 << (_DROPPED - 1)) - 1) + is_odd
    rounded = (bits & -(1 << _DROPPED)).view(torch.float32)
    return torch.where(x.isfinite(), rounded, x)


class _Products(TorchDispatchMode):
    """Rounds the factors of products before they are multiplied, and counts the products."""

    def __init__(self, nearest: bool) -> None:
        super().__init__()
        self.products = 0
        self._nearest = nearest

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        rest = dict(kwargs or {})
        if func in _FACTORS:
            self.products += 1
            rounded = list(args)
            for position in _FACTORS[func]:
                rounded[position] = self._round(args[position])
            return func(*rounded, **rest)
        with self:
            # In inference mode, composite operations arrive here.
            result = func.decompose(*args, **rest)
        if result is not NotImplemented:
            return result
        if any(name in func.name() for name in _CLOSED):
            raise UsageError(
                f"TF32 of {func.name()} cannot be emulated: it multiplies inside one operation. "
                "Leave this network out, or measure it on a GPU."
            )
        return func(*args, **rest)

    def _round(self, x: Tensor) -> Tensor:
        return round_to_tf32(x, self._nearest) if x.dtype == torch.float32 else x


@contextmanager
def tf32_products(nearest: bool = True) -> Iterator[_Products]:
    """Compute all products of float32 numbers in the block like TF32, in this thread.

    Raises:
        UsageError: an operation multiplies where its factors cannot be rounded.
    """
    # Other attention backends compute their products in one operation.
    with sdpa_kernel(SDPBackend.MATH), _Products(nearest) as products:
        yield products
