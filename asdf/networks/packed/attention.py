"""AASIST's attention behind a front end, which looks at each position of a map by itself.

Invariant: what `NodeAttention` computes in `eval()` mode. A convolution of one position is a linear
map of its channels; the norm between the two is part of the second one's weights.

Shapes: B utterances, C channels, S spectral and N temporal nodes, H hidden values.
"""

from __future__ import annotations

from torch import Tensor, nn

from asdf.networks.back_ends.ssl_aasist import NodeAttention
from asdf.networks.fast_selu import ALPHA, LOG2_E, SCALE, unscaled_selu_
from asdf.networks.packed.arithmetic import LinearWeight
from asdf.networks.packed.norms import fold_norm, is_foldable


class PackedNodeAttention(nn.Module):
    """Two linear maps around SELU and a batch norm."""

    def __init__(self, attention: NodeAttention) -> None:
        super().__init__()
        first, _, norm, second = attention
        assert isinstance(first, nn.Conv2d) and first.bias is not None
        assert isinstance(second, nn.Conv2d) and second.bias is not None
        self._first = LinearWeight(first.weight[:, :, 0, 0] * LOG2_E, first.bias * LOG2_E)
        weight_CH = second.weight[:, :, 0, 0]
        scale = SCALE * ALPHA
        # What comes in is 1 + SELU / scale.
        factor_H, shift_H = fold_norm(norm, -scale)
        bias_C = second.bias + weight_CH @ shift_H
        self._second = LinearWeight(weight_CH * factor_H * scale, bias_C)

    def forward(self, x_BCSN: Tensor) -> Tensor:
        """Return scores of the same shape."""
        x_BSNC = x_BCSN.permute(0, 2, 3, 1).contiguous()
        hidden_BSNH = unscaled_selu_(self._first.apply(x_BSNC))
        return self._second.apply(hidden_BSNH).permute(0, 3, 1, 2)


def is_known_attention(attention: NodeAttention) -> bool:
    """Return whether its parts are those that a `PackedNodeAttention` can be made of."""
    first, _, norm, second = attention
    return is_foldable(norm) and type(first) is nn.Conv2d and type(second) is nn.Conv2d
