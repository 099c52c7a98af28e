"""Layers of wav2vec 2.0 that are faster in another memory layout, or combined.

Invariant: results are those of torchaudio's layers in `eval()` mode. Frames come first in memory
and channels last, so that a convolution is one product of windows with a matrix, and a layer norm
reads contiguous numbers.

The convolution that encodes positions spans 128 frames, so a product of spectra needs a fifth of
the operations. Frames are cut into segments that overlap by a kernel, and values that wrap around
in a segment are discarded (overlap-save). Source: Oppenheim and Schafer, "Discrete-Time Signal
Processing", section 8.7.3.

Shapes: B utterances, T samples, L frames, C channels, O output channels; W values of a window, V of
one with a 1 appended; H heads of D values. In the convolution over positions: G groups of I input
and O output channels, K values of a kernel, S segments of N frames, F frequencies; 1 a single
value.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchaudio.models.wav2vec2.components import (
    ConvLayerBlock,
    ConvolutionalPositionalEmbedding,
    FeatureExtractor,
    FeedForward,
    LayerNorm,
    SelfAttention,
)

from asdf.extras.cpu.packed_weights import LinearWeight, is_large
from asdf.networks.casting import without_autocast

# Length of a segment of positions, in kernels. Shorter segments overlap more, longer ones exceed a
# recording of 4 s.
_KERNELS = 3


class PackedStem(nn.Module):
    """The convolutions from samples to frames, one utterance after another."""

    def __init__(self, stem: FeatureExtractor, dtype: torch.dtype) -> None:
        super().__init__()
        self._layers: list[_StemLayer] = []
        for layer in stem.conv_layers:
            is_first = layer.conv.in_channels == 1
            packed: type[_StemLayer] = _NormedOverChannels
            if isinstance(layer.layer_norm, nn.GroupNorm):
                packed = _NormedOverTime
            elif layer.layer_norm is not None and is_first:
                packed = _SamplesNormedOverChannels
            # The samples keep full precision, since a product with one channel is small.
            self._layers.append(packed(layer, torch.float32 if is_first else dtype))

    def forward(self, x_BT: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return frames (batch, frames, channels), and the number of frames of each utterance."""
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


class PackedSelfAttention(nn.Module):
    """Attention with one product for queries, keys and values."""

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
        # In bfloat16, torch's attention takes three times as long on a CPU.
        with without_autocast(x_BLC):
            attended_BHLD = nn.functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=attention_mask
            )
        return self._output.apply(attended_BHLD.transpose(1, 2).flatten(2)), None


class PackedFeedForward(nn.Module):
    """Two linear maps around a GELU, which is fused into the first."""

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


class PackedPositions(nn.Module):
    """The convolution, with its weight norm computed once, and GELU."""

    def __init__(self, positions: ConvolutionalPositionalEmbedding) -> None:
        super().__init__()
        conv = positions.conv
        (self._kernel,) = conv.kernel_size
        (self._padding,) = conv.padding
        self._groups = conv.groups
        self._removed = positions.num_remove
        self._length = _KERNELS * self._kernel
        self._step = self._length - self._kernel + 1
        # Flipped, since products of spectra are convolutions and the layer is a correlation.
        kernels_CIK = conv.weight.detach().double().flip(2)
        spectra_CIF = torch.fft.rfft(kernels_CIK, self._length).to(torch.complex64)
        spectra_GOIF = spectra_CIF.unflatten(0, (self._groups, -1))
        self._spectra_IGO1F = spectra_GOIF.permute(2, 0, 1, 3).unsqueeze(3).contiguous()
        self._bias_C = conv.bias.detach().clone()

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Map (batch, frames, channels) to the same shape."""
        frames = x_BLC.shape[1] + 2 * self._padding - self._kernel + 1
        y_BLC = self._convolve(x_BLC.float(), frames)[:, : frames - self._removed]
        result_BLC: Tensor = F.gelu(y_BLC + self._bias_C)
        return result_BLC

    def _convolve(self, x_BLC: Tensor, frames: int) -> Tensor:
        """Return `frames` frames of all channels, without the bias."""
        segments = -(-frames // self._step)
        end = (segments - 1) * self._step + self._length
        padding = (self._padding, end - x_BLC.shape[1] - self._padding)
        x_BCSN = F.pad(x_BLC.transpose(1, 2), padding).unfold(2, self._length, self._step)
        x_BGISF = torch.fft.rfft(x_BCSN).unflatten(1, (self._groups, -1))
        inputs = x_BGISF.unsqueeze(3).unbind(2)
        y_BGOSF: Tensor = inputs[0] * self._spectra_IGO1F[0]
        for x_BG1SF, spectra_GO1F in zip(inputs[1:], self._spectra_IGO1F[1:], strict=True):
            y_BGOSF.addcmul_(x_BG1SF, spectra_GO1F)
        y_BCSN = torch.fft.irfft(y_BGOSF.flatten(1, 2), self._length)
        # The first values of each segment wrapped around.
        y_BCL = y_BCSN[..., self._kernel - 1 :].flatten(2)
        y_BLC: Tensor = y_BCL[..., :frames].transpose(1, 2)
        return y_BLC


class _StemLayer(ABC):
    """A convolution over time, its norm, and GELU, computed from windows of frames."""

    def __init__(self, layer: ConvLayerBlock, dtype: torch.dtype) -> None:
        self._kernel = layer.kernel_size
        self._stride = layer.stride
        self._dtype = dtype

    def apply(self, x_LC: Tensor) -> Tensor:
        """Map (frames, channels) to fewer frames."""
        # Cast before windows are cut, since they overlap.
        x_LC = x_LC.to(self._dtype)
        length, channels = x_LC.shape
        count = (length - self._kernel) // self._stride + 1
        step = self._stride * channels
        windows_LW = x_LC.as_strided((count, self._kernel * channels), (step, 1))
        # Overlapping windows are copied, which takes a twentieth of the time of the product.
        return self._compute(windows_LW.contiguous())

    def frames(self, inputs: Tensor) -> Tensor:
        """Return the number of frames for `inputs` input frames."""
        outputs = torch.div(inputs - self._kernel, self._stride, rounding_mode="floor") + 1
        return outputs.clamp(min=0)

    @abstractmethod
    def _compute(self, windows_LW: Tensor) -> Tensor:
        """Return frames (frames, channels) of windows (frames, values)."""


class _NormedOverChannels(_StemLayer):
    """A layer with a norm of each frame, or without a norm."""

    def __init__(self, layer: ConvLayerBlock, dtype: torch.dtype) -> None:
        super().__init__(layer, dtype)
        self._norm = layer.layer_norm
        self._weight = LinearWeight(_by_window(layer.conv), layer.conv.bias, dtype)

    def _compute(self, windows_LW: Tensor) -> Tensor:
        norm = self._norm
        if norm is None:
            return self._weight.apply(windows_LW, "gelu")
        y_LC = self._weight.apply(windows_LW)
        size = list(norm.normalized_shape)
        y_LC = nn.functional.layer_norm(y_LC, size, norm.weight, norm.bias, norm.eps)
        torch.ops.aten.gelu_(y_LC)
        return y_LC


class _NormedOverTime(_StemLayer):
    """A layer with a norm of each channel, for windows of a few samples."""

    def __init__(self, layer: ConvLayerBlock, dtype: torch.dtype) -> None:
        super().__init__(layer, dtype)
        norm = layer.layer_norm
        self._factor_O = norm.weight.detach().double()
        self._bias_O = norm.bias.detach().clone()
        self._eps = norm.eps
        self._weight_OW = _by_window(layer.conv).double()

    def _compute(self, windows_LW: Tensor) -> Tensor:
        # A channel's variance follows from the covariances of a window's samples, so the norm
        # becomes part of the weight, and its mean cancels the convolution's bias.
        centred_LW = windows_LW - windows_LW.mean(dim=0)
        covariances_WW = (centred_LW.T @ centred_LW).double() / len(centred_LW)
        variance_O = (self._weight_OW @ covariances_WW * self._weight_OW).sum(dim=1)
        factor_O = self._factor_O * torch.rsqrt(variance_O + self._eps)
        normed_OW = (self._weight_OW * factor_O.unsqueeze(1)).float()
        return LinearWeight(normed_OW, self._bias_O).apply(centred_LW, "gelu")


class _SamplesNormedOverChannels(_StemLayer):
    """A layer with a norm of each frame, for windows with fewer samples than channels.

    A frame minus its mean is a linear map of its window. The QR decomposition splits it into a map
    to as many numbers as the window has, and a rotation. The first map alone gives the frame's
    deviation, by which its window is divided; the norm's weight becomes part of the convolution's.
    """

    def __init__(self, layer: ConvLayerBlock, dtype: torch.dtype) -> None:
        super().__init__(layer, dtype)
        conv = layer.conv
        norm = layer.layer_norm
        weight_OW = _by_window(conv).double()
        bias_O = torch.zeros(len(weight_OW)) if conv.bias is None else conv.bias.detach()
        # For the bias, a 1 is appended to each window.
        weight_OV = torch.cat([weight_OW, bias_O.double().unsqueeze(1)], dim=1)
        centred_OV = weight_OV - weight_OV.mean(dim=0)
        root_VV = torch.linalg.qr(centred_OV, mode="r").R / math.sqrt(len(centred_OV))
        self._root_VW = root_VV[:, :-1].float()
        self._root_V1 = root_VV[:, -1:].float()
        self._eps = norm.eps
        scaled_OV = centred_OV * norm.weight.detach().unsqueeze(1)
        self._weight = LinearWeight(scaled_OV.float(), norm.bias, dtype)

    def _compute(self, windows_LW: Tensor) -> Tensor:
        deviations_VL = torch.addmm(self._root_V1, self._root_VW, windows_LW.T)
        variance_L = deviations_VL.square_().sum(dim=0)
        factor_L1 = variance_L.add_(self._eps).rsqrt_().unsqueeze(1)
        frames, samples = windows_LW.shape
        scaled_LV = windows_LW.new_empty(frames, samples + 1)
        torch.mul(windows_LW, factor_L1, out=scaled_LV[:, :-1])
        scaled_LV[:, -1:] = factor_L1
        return self._weight.apply(scaled_LV, "gelu")


def _by_window(conv: nn.Conv1d) -> Tensor:
    """Return a convolution's weight as a matrix, with the channels of a frame contiguous."""
    return conv.weight.detach().permute(0, 2, 1).flatten(1)


def pack_stem(stem: FeatureExtractor, dtype: torch.dtype) -> PackedStem | None:
    """Return the stem packed; None if a layer has a norm of another kind."""
    for layer in stem.conv_layers:
        norm = layer.layer_norm
        if type(norm) is nn.GroupNorm:
            # One group per channel of samples, since covariances over several channels would be
            # large.
            is_per_channel = norm.num_groups == norm.num_channels
            is_known = is_per_channel and norm.affine and layer.conv.in_channels == 1
        else:
            is_known = norm is None or (type(norm) is LayerNorm and norm.weight is not None)
        if not is_known:
            return None
    return PackedStem(stem, dtype)


def pack_self_attention(layer: SelfAttention, dtype: torch.dtype) -> PackedSelfAttention | None:
    """Return the attention packed; None if that is not faster, or its maps are of other kinds."""
    are_known = _are_linear(layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    return PackedSelfAttention(layer, dtype) if are_known and is_large(layer.out_proj) else None


def pack_feed_forward(layer: FeedForward, dtype: torch.dtype) -> PackedFeedForward | None:
    """Return the layer packed; None if that is not faster, or its maps are of other kinds."""
    are_known = _are_linear(layer.intermediate_dense, layer.output_dense)
    is_packed = are_known and is_large(layer.intermediate_dense)
    return PackedFeedForward(layer, dtype) if is_packed else None


def _are_linear(*layers: nn.Module) -> bool:
    # Low-rank updates are linear layers of another class.
    return all(type(layer) is nn.Linear for layer in layers)
