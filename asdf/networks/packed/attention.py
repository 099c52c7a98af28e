"""AASIST's attention behind a front end, which looks at each position of a map by itself.

Invariant: what `NodeAttention` computes in `eval()` mode. A convolution of one position is a linear
map of its channels; the norm between the two is part of the second one's weights.

Shapes: B utterances, C channels, S spectral and N temporal nodes, H hidden values.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from asdf.networks.cpu_gradients import softmax_mean
from asdf.networks.fast_selu import ALPHA, LOG2_E, SCALE, unscaled_selu_
from asdf.networks.packed.arithmetic import LinearWeight
from asdf.networks.ssl_aasist import NodeAttention


class PackedNodeAttention(nn.Module):
    """Two linear maps around SELU and a batch norm."""

    def __init__(self, attention: NodeAttention) -> None:
        super().__init__()
        first, _, norm, second = attention
        assert isinstance(first, nn.Conv2d) and first.bias is not None
        assert isinstance(second, nn.Conv2d) and second.bias is not None
        # In a run of several processes it is one over the minibatches of all.
        assert isinstance(norm, _BatchNorm)
        assert norm.running_mean is not None and norm.running_var is not None
        self._first = LinearWeight(first.weight[:, :, 0, 0] * LOG2_E, first.bias * LOG2_E)
        weight_CH = second.weight[:, :, 0, 0]
        factor_H = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        scale = SCALE * ALPHA
        # What comes in is 1 + SELU / scale.
        shift_H = norm.bias - (norm.running_mean + scale) * factor_H
        bias_C = second.bias + weight_CH @ shift_H
        self._second = LinearWeight(weight_CH * factor_H * scale, bias_C)

    def weigh_nodes(self, x_BCSN: Tensor) -> tuple[Tensor, Tensor]:
        """Return spectral nodes (batch, S, C) and temporal ones (batch, N, C) of a map."""
        # With channels last a softmax over positions takes half of the time.
        x_BSNC = x_BCSN.permute(0, 2, 3, 1).contiguous()
        hidden_BSNH = unscaled_selu_(self._first.apply(x_BSNC))
        scores_BSNC = self._second.apply(hidden_BSNH)
        return softmax_mean(x_BSNC, scores_BSNC, 2), softmax_mean(x_BSNC, scores_BSNC, 1)


def is_known_attention(attention: NodeAttention) -> bool:
    """Return whether its parts are those that a `PackedNodeAttention` can be made of."""
    first, _, norm, second = attention
    is_tracked = isinstance(norm, _BatchNorm) and norm.running_mean is not None
    return is_tracked and type(first) is nn.Conv2d and type(second) is nn.Conv2d
