"""The layers of wav2vec 2.0 that are faster in another order of their numbers, or together.

Invariant: what torchaudio's layers compute in `eval()` mode. Frames come first in memory and
channels last, so that a convolution is one product of windows with a matrix, and a layer norm looks
at neighbouring numbers.

Shapes: B utterances, T samples, L frames, C channels, K values of a window; H heads of D values.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchaudio.models.wav2vec2.components import (
    ConvLayerBlock,
    ConvolutionalPositionalEmbedding,
    FeatureExtractor,
    FeedForward,
    LayerNorm,
    SelfAttention,
)

from asdf.networks.full_precision import without_autocast
from asdf.networks.packed.arithmetic import ConvolutionWeight, LinearWeight

# For which a layout is chosen: 4 s.
_FRAMES = 200


class PackedStem(nn.Module):
    """The convolutions from samples to frames; one utterance after the other."""

    def __init__(self, stem: FeatureExtractor, dtype: torch.dtype) -> None:
        super().__init__()
        self._layers = []
        for layer in stem.conv_layers:
            # The samples themselves keep all their digits: of one channel, a product is small.
            is_first = layer.conv.in_channels == 1
            self._layers.append(_StemLayer(layer, torch.float32 if is_first else dtype))

    def forward(self, x_BT: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return frames (batch, frames, channels), and how many of them are of each utterance."""
        utterances = [self._convolve(x_T) for x_T in x_BT]
        if lengths_B is not None:
            for layer in self._layers:
                lengths_B = layer.frames(lengths_B)
        return torch.stack(utterances), lengths_B

    def _convolve(self, x_T: Tensor) -> Tensor:
        x_LC = x_T.unsqueeze(1)
        for layer in self._layers:
            x_LC = layer.apply(x_LC)
        return x_LC


class PackedPositions(nn.Module):
    """The convolution that encodes positions, with its weight norm computed once."""

    def __init__(self, positions: ConvolutionalPositionalEmbedding) -> None:
        super().__init__()
        conv = positions.conv
        self._removed = positions.num_remove
        self._weight = ConvolutionWeight(
            conv.weight.unsqueeze(2),
            conv.bias,
            (0, conv.padding[0]),
            (1, conv.in_channels, 1, _FRAMES),
            conv.groups,
        )

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Map (batch, frames, channels) to the same shape."""
        # In memory this is the order that the convolution wants.
        x_BC1L = x_BLC.transpose(1, 2).unsqueeze(2)
        y_BC1L = self._weight.apply(x_BC1L, "gelu")
        y_BLC = y_BC1L.squeeze(2).transpose(1, 2)
        return y_BLC[:, : y_BLC.shape[1] - self._removed]


class PackedSelfAttention(nn.Module):
    """Attention whose queries, keys and values are one product."""

    def __init__(self, attention: SelfAttention, dtype: torch.dtype) -> None:
        super().__init__()
        self._heads = attention.num_heads
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        self._joined = LinearWeight(
            torch.cat([part.weight for part in parts]),
            torch.cat([part.bias for part in parts]),
            dtype,
        )
        self._output = LinearWeight(attention.out_proj.weight, attention.out_proj.bias, dtype)

    def forward(
        self,
        x_BLC: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Map (batch, frames, channels) to the same shape; torchaudio ignores the last two."""
        joined_BL3HD = self._joined.apply(x_BLC).unflatten(2, (3, self._heads, -1))
        queries, keys, values = joined_BL3HD.permute(2, 0, 3, 1, 4)
        # In bfloat16, torch's attention on a CPU takes three times as long.
        with without_autocast(x_BLC):
            attended_BHLD = nn.functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=attention_mask
            )
        return self._output.apply(attended_BHLD.transpose(1, 2).flatten(2)), None


class PackedFeedForward(nn.Module):
    """Two linear maps around a GELU, which the first of them computes."""

    def __init__(self, layer: FeedForward, dtype: torch.dtype) -> None:
        super().__init__()
        first = layer.intermediate_dense
        second = layer.output_dense
        self._first = LinearWeight(first.weight, first.bias, dtype)
        self._second = LinearWeight(second.weight, second.bias, dtype)

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Map (batch, frames, channels) to the same shape."""
        hidden_BLC = self._first.apply(x_BLC, "gelu", as_float32=False)
        return self._second.apply(hidden_BLC)


class _StemLayer:
    """A convolution over time as a product of windows, its norm, and GELU."""

    def __init__(self, layer: ConvLayerBlock, dtype: torch.dtype) -> None:
        weight_OIK = layer.conv.weight
        self._norm = layer.layer_norm
        self._kernel = layer.kernel_size
        self._stride = layer.stride
        # In a window, the channels of a frame stand together.
        weight_OW = weight_OIK.permute(0, 2, 1).flatten(1)
        self._weight = LinearWeight(weight_OW, layer.conv.bias, dtype)
        self._dtype = dtype

    def apply(self, x_LC: Tensor) -> Tensor:
        """Map (frames, channels) to fewer frames."""
        # Before windows are cut: they overlap.
        windows_LW = self._cut_windows(x_LC.to(self._dtype))
        if self._norm is None:
            return self._weight.apply(windows_LW, "gelu")
        y_LC = _normalize(self._norm, self._weight.apply(windows_LW))
        torch.ops.aten.gelu_(y_LC)
        return y_LC

    def frames(self, inputs: Tensor) -> Tensor:
        """Return how many frames are made of `inputs` ones."""
        outputs = torch.div(inputs - self._kernel, self._stride, rounding_mode="floor") + 1
        return outputs.clamp(min=0)

    def _cut_windows(self, x_LC: Tensor) -> Tensor:
        length, channels = x_LC.shape
        count = (length - self._kernel) // self._stride + 1
        step = self._stride * channels
        windows_LW = x_LC.as_strided((count, self._kernel * channels), (step, 1))
        # Overlapping ones are copied, which takes a twentieth of the product.
        return windows_LW.contiguous()


def _normalize(norm: nn.Module, x_LC: Tensor) -> Tensor:
    """Apply the norm of a layer of the stem to one utterance; it may overwrite `x_LC`."""
    if isinstance(norm, LayerNorm):
        return nn.functional.layer_norm(
            x_LC, list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
        )
    assert isinstance(norm, nn.GroupNorm)
    # One group per channel: the mean and the deviation over time.
    x_LC -= x_LC.mean(dim=0)
    variance_C = x_LC.square().mean(dim=0)
    factor_C = norm.weight * torch.rsqrt(variance_C + norm.eps)
    return torch.addcmul(norm.bias, x_LC, factor_C, out=x_LC)


def is_known_stem(stem: FeatureExtractor) -> bool:
    """Return whether all norms of a stem are of a kind that `PackedStem` knows."""
    for layer in stem.conv_layers:
        norm = layer.layer_norm
        is_group_norm = type(norm) is nn.GroupNorm and norm.num_groups == norm.num_channels
        if not (norm is None or type(norm) is LayerNorm or is_group_norm):
            return False
    return True
