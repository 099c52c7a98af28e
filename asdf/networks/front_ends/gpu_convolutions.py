"""The convolutions of the wav2vec 2.0 family in the memory layout that is fastest on GPUs.

Invariant: values and gradients equal those of torch's operations, up to the rounding of their
number format. In torchaudio's code, each convolution of the stem is transposed in memory for cuDNN
and its norm, and again in the backward pass; here frames come before channels throughout. cuDNN has
no fast kernel for the grouped convolution over 128 frames that encodes positions; as matrix
products, it takes less than half of the time on an H200.

Shapes: B utterances, T samples, L frames, P padded frames, C channels, G groups, D channels of a
group and E its results, K frames that a kernel sees, X rows of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.parametrize import is_parametrized
from torchaudio.models.wav2vec2.components import (
    ConvLayerBlock,
    ConvolutionalPositionalEmbedding,
    FeatureExtractor,
)

from asdf.networks.casting import is_short_on_gpu, without_autocast
from asdf.networks.functions import is_plain

# The inputs seen by all groups have 128 times the size; this many times are computed at once.
_COPIES = 32
# GPUs need rows of 16 bytes for products of 16-bit numbers.
_ALIGNED = 16


def computes_frames_first(module: nn.Module, x: Tensor) -> bool:
    """Return whether a GPU computes a stem or positional encoding with these functions.

    Call this before `weights_cast_together`, which changes the norms.
    """
    return is_short_on_gpu(x) and all(map(is_plain, module.modules()))


def convolve_frames(stem: FeatureExtractor, waveforms_BT: Tensor, short_norms: bool) -> Tensor:
    """Return the output of the convolutional stem for (batch, samples): (batch, frames, channels).

    Args:
        short_norms: Whether norms compute in the format of their cast weights.
    """
    first, *others = stem.conv_layers
    x_BLC = _convolve_waveforms(first, waveforms_BT, short_norms)
    for layer in others:
        x_BLC = _convolve_layer(layer, x_BLC, short_norms)
    return x_BLC


def _convolve_waveforms(layer: ConvLayerBlock, waveforms_BT: Tensor, short: bool) -> Tensor:
    """Compute the first layer as a product, since cuDNN is slow with one channel, channels-last."""
    convolution = layer.conv
    if isinstance(layer.layer_norm, nn.GroupNorm):
        # The base sizes have a norm over time, which then is the last dimension.
        x_BCL: Tensor = layer(waveforms_BT.unsqueeze(1), None)[0]
        return x_BCL.transpose(1, 2).to(
            convolution.weight.dtype, memory_format=torch.contiguous_format
        )
    width = convolution.kernel_size[0]
    more = -width % _ALIGNED
    padded_BT = F.pad(waveforms_BT, (0, more))
    windows_BLK = padded_BT.unfold(dimension=1, size=width + more, step=convolution.stride[0])
    x_BLC = F.linear(windows_BLK, F.pad(convolution.weight.squeeze(1), (0, more)), convolution.bias)
    return F.gelu(_normalize(layer.layer_norm, x_BLC, short))


def _convolve_layer(layer: ConvLayerBlock, x_BLC: Tensor, short: bool) -> Tensor:
    # As images with one row, whose channels may be last in memory.
    x_BC1L = x_BLC.transpose(1, 2).unsqueeze(2)
    x_BC1L = F.conv2d(
        x_BC1L, layer.conv.weight.unsqueeze(2), layer.conv.bias, stride=(1, *layer.conv.stride)
    )
    x_BLC = x_BC1L.squeeze(2).transpose(1, 2)
    return F.gelu(_normalize(layer.layer_norm, x_BLC, short))


def _normalize(norm: nn.LayerNorm | None, x_BLC: Tensor, short: bool) -> Tensor:
    if norm is None:
        return x_BLC
    if not short:
        return nn.LayerNorm.forward(norm, x_BLC)
    with without_autocast(x_BLC):
        return nn.LayerNorm.forward(norm, x_BLC.to(norm.weight.dtype))


def encode_positions(module: ConvolutionalPositionalEmbedding, x_BLC: Tensor) -> Tensor:
    """Return the positional term added to the encoder's input (batch, frames, channels)."""
    if not computes_frames_first(module, x_BLC):
        encoded_BLC: Tensor = module(x_BLC)
        return encoded_BLC
    dtype = torch.get_autocast_dtype(x_BLC.device.type)
    convolution = module.conv
    convolved_BLC: Tensor = GroupedConvolution.apply(
        x_BLC.to(dtype),
        _compute_weight(convolution).to(dtype),
        convolution.bias.to(dtype),
        convolution.groups,
    )
    return F.gelu(convolved_BLC)


def _compute_weight(convolution: nn.Conv1d) -> Tensor:
    """Return the normalised weight; torch is slow if the norm is over all but the last dimension.

    Source: Salimans and Kingma, "Weight normalization", NeurIPS 2016.
    """
    if not is_parametrized(convolution, "weight"):
        return convolution.weight
    parts: Any = convolution.get_submodule("parametrizations.weight")
    if not (len(parts) == 1 and type(parts[0]) is _WeightNorm):
        return convolution.weight
    lengths = parts.original0
    directions = parts.original1
    # A norm over other dimensions is left to torch.
    if lengths.numel() != lengths.shape[2]:
        return convolution.weight
    norms = torch.linalg.vector_norm(directions, dim=(0, 1), keepdim=True)
    weight: Tensor = directions * (lengths / norms)
    return weight


class GroupedConvolution(torch.autograd.Function):
    """A grouped convolution over frames, (B, L, C) to (B, L, G * E), computed as products.

    The weights are (G * E, D, K). A frame sees K // 2 frames before it and the rest after it;
    frames beyond the ends are 0.
    """

    @staticmethod
    def forward(ctx: Any, x_BLC: Tensor, weight: Tensor, bias: Tensor, groups: int) -> Tensor:
        ctx.save_for_backward(x_BLC, weight)
        ctx.groups = groups
        taps = weight.shape[2]
        weight_GEDK = weight.unflatten(0, (groups, -1))
        weight_GXE = weight_GEDK.permute(0, 3, 2, 1).flatten(1, 2)
        bias_G1E = bias.view(groups, 1, -1)
        parts = []
        for chosen, windows_GXK in _windows(x_BLC, groups, taps, before=taps // 2):
            part_GXE = torch.baddbmm(bias_G1E[chosen], windows_GXK, weight_GXE[chosen])
            parts.append(part_GXE)
        return _join(parts, x_BLC)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BLC: Tensor) -> tuple[Tensor | None, ...]:
        x_BLC, weight = ctx.saved_tensors
        of_x_BLC = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x_BLC = _find_gradient_of_input(gradient_BLC, weight, ctx.groups)
        if ctx.needs_input_grad[1]:
            of_weight = _find_gradient_of_weight(gradient_BLC, x_BLC, weight, ctx.groups)
        of_bias_C = gradient_BLC.sum((0, 1))
        return of_x_BLC, of_weight, of_bias_C, None


def _find_gradient_of_input(gradient_BLC: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Return the convolution of the gradient with the flipped weights."""
    taps = weight.shape[2]
    turned_GEDK = weight.unflatten(0, (groups, -1)).flip(3)
    weight_GXD = turned_GEDK.permute(0, 3, 1, 2).flatten(1, 2)
    # As many frames as the forward pass has after a frame, since the kernel is flipped.
    before = taps - 1 - taps // 2
    parts = []
    for chosen, windows_GXK in _windows(gradient_BLC, groups, taps, before):
        parts.append(torch.bmm(windows_GXK, weight_GXD[chosen]))
    return _join(parts, gradient_BLC)


def _find_gradient_of_weight(
    gradient_BLC: Tensor, x_BLC: Tensor, weight: Tensor, groups: int
) -> Tensor:
    taps = weight.shape[2]
    gradient_BLGE = gradient_BLC.unflatten(2, (groups, -1))
    gradient_GXE = gradient_BLGE.permute(2, 0, 1, 3).flatten(1, 2)
    parts = []
    for chosen, windows_GXK in _windows(x_BLC, groups, taps, before=taps // 2):
        parts.append(torch.bmm(windows_GXK.mT, gradient_GXE[chosen]))
    of_weight_GKDE = torch.cat(parts).unflatten(1, (taps, -1))
    of_weight: Tensor = of_weight_GKDE.permute(0, 3, 2, 1).reshape(weight.shape)
    return of_weight


def _windows(x_BLC: Tensor, groups: int, taps: int, before: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield some groups, and the inputs that each of their frames sees: (groups, B * L, K * D)."""
    after = taps - 1 - before
    padded_BPC = F.pad(x_BLC, (0, 0, before, after))
    padded_BPGD = padded_BPC.unflatten(2, (groups, -1))
    padded_GBPD = padded_BPGD.permute(2, 0, 1, 3).contiguous()
    values = padded_GBPD.shape[3]
    # A frame's inputs are contiguous, and overlap with those of the next frame.
    seen_GBLDK = padded_GBPD.unfold(2, taps, 1)
    seen_GBLKD = seen_GBLDK.transpose(3, 4)
    seen_GBLX = seen_GBLKD.as_strided(
        (*seen_GBLKD.shape[:3], taps * values), (*seen_GBLKD.stride()[:3], 1)
    )
    together = max(1, _COPIES * groups // taps)
    for start in range(0, groups, together):
        chosen = slice(start, start + together)
        yield chosen, seen_GBLX[chosen].flatten(1, 2)


def _join(parts: list[Tensor], like_BLC: Tensor) -> Tensor:
    """Return (B, L, G * E) for parts (groups, B * L, E)."""
    joined_GXE = parts[0]
    if len(parts) > 1:
        joined_GXE = torch.cat(parts)
    joined_GBLE = joined_GXE.unflatten(1, like_BLC.shape[:2])
    joined_BLC: Tensor = joined_GBLE.permute(1, 2, 0, 3).flatten(2)
    return joined_BLC
