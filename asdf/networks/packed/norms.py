"""Batch norms in `eval()` mode, as a factor and a constant for the weights of a neighbouring layer.

Shapes: C channels.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def is_foldable(norm: nn.Module) -> TypeGuard[_BatchNorm]:
    """Return whether `norm` is a batch norm with statistics and weights of its own.

    In a run of several processes it is one over the minibatches of all.
    """
    if not isinstance(norm, _BatchNorm):
        return False
    return norm.running_mean is not None and norm.weight is not None


def fold_norm(norm: nn.Module, bias_C: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return what the norm of x + `bias_C` is: a factor (C,) of x, and a constant (C,)."""
    assert is_foldable(norm) and norm.running_mean is not None and norm.running_var is not None
    factor_C = norm.weight.detach() / torch.sqrt(norm.running_var + norm.eps)
    constant_C = (bias_C - norm.running_mean) * factor_C + norm.bias.detach()
    return factor_C, constant_C
