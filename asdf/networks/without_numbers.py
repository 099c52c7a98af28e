"""Networks that have shapes and no numbers, made without torch's compiler.

torch computes some functions of the meta device by its references in Python, which load its
compiler, or sympy: that takes longer than all else that is done to open a network. Those functions,
which initialise weights, are given their shapes here.
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
    """Make the tensors of the block on the meta device, where they take no memory."""
    with torch.device("meta"), _Shapes():
        yield


class _Shapes(TorchFunctionMode):
    """A block in which meta tensors are neither drawn nor normed."""

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
    """Return what torch.norm_except_dim would, without numbers."""
    # All but one dimension are summed up; -1 leaves none.
    sizes = [size if each == dim else 1 for each, size in enumerate(weight.shape)]
    return weight.new_empty(sizes if dim >= 0 else [])
