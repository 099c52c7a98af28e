"""Networks with shapes but without numbers, created without torch's compiler.

On the meta device, torch computes some functions by Python references, which load its compiler or
sympy; this takes longer than all other steps of opening a network. These functions, which
initialise weights, get their result shapes directly here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextmanager
def without_numbers() -> Iterator[None]:
    """Create the block's tensors on the meta device, where they take no memory."""
    with torch.device("meta"), _Shapes():
        yield


class _Shapes(TorchFunctionMode):
    """A mode in which meta tensors are neither initialised nor normalised."""

    def __torch_function__(
        self,
        function: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        if args and isinstance(args[0], Tensor) and args[0].is_meta:
            if function is Tensor.normal_:
                return args[0]
            if function is torch.norm_except_dim and not kwargs:
                return _shape_of_norm(*args)
        if function is torch.randn and not kwargs:
            return torch.empty(*args)
        return function(*args, **(kwargs or {}))


def _shape_of_norm(weight: Tensor, power: int = 2, dim: int = 0) -> Tensor:
    """Return the shape of torch.norm_except_dim's result as an empty tensor."""
    # All dimensions but one are summed; -1 keeps none.
    sizes = [size if each == dim else 1 for each, size in enumerate(weight.shape)]
    return weight.new_empty(sizes if dim >= 0 else [])
