"""The layers of the wav2vec 2.0 family: computing, dropping and summing them; convolutions on GPUs.

Invariant: in training, every trained parameter of every computed layer gets a gradient in every
step, which is zero if the layer was dropped. Processes can therefore drop different layers, as in
fairseq, without waiting for gradients that others lack, and the optimiser treats a step in the same
way on any number of processes. WavLM's weights are renamed to torchaudio's names without change,
and its position bias equals torchaudio's to the last bit.

On GPUs, frames come before channels in the stem and in the convolution that encodes positions;
values and gradients equal those of torch's operations, up to the rounding of their number format.
In torchaudio's code, each convolution of the stem is transposed in memory for cuDNN and its norm,
and again in the backward pass. cuDNN has no fast kernel for the grouped convolution over 128 frames
that encodes positions; as matrix products, it takes less than half of the time on an H200.

Source: Chen et al., "WavLM", JSTSP 2022, for the gated relative position bias; torchaudio's network
for the names.

Shapes: B utterances, T samples, L frames, P padded frames, C feature values, H attention heads; D
distances between frames, or channels of a group of G, and E its results; K frames that a kernel
sees, X rows of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from threading import local
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.parametrize import is_parametrized
from torch.utils.checkpoint import checkpoint
from torchaudio.models.wav2vec2.components import (
    ConvLayerBlock,
    ConvolutionalPositionalEmbedding,
    FeatureExtractor,
    Transformer,
)
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

from asdf.networks.casting import (
    is_autocast_on,
    is_short_on_gpu,
    norms_are_short,
    weights_cast_together,
    without_autocast,
)
from asdf.networks.functions import is_plain

_GATE = ".gru_rel_pos_const"
_JOINED = ("q_proj", "k_proj", "v_proj")

# In frames, 22 minutes; attention over more fits into no memory, whatever a file claims.
_MAX_DISTANCE = 2**16


def join_attention_layers(layers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join the query, key and value projections of WavLM's attention to the matrix torch uses.

    Args:
        layers: Layers of any front end, by torchaudio's names except for those projections.
    """
    result = dict(layers)
    # Only WavLM's attention has a gate.
    gated = [name.removesuffix(_GATE) for name in layers if name.endswith(_GATE)]
    for attention, kind in product(gated, ("weight", "bias")):
        names = [f"{attention}.{part}.{kind}" for part in _JOINED]
        # A file may lack some, which the check of all layers then reports by name.
        if all(name in result for name in names):
            parts = [result.pop(name) for name in names]
            result[f"{attention}.attention.in_proj_{kind}"] = torch.cat(parts)
        name = f"{attention}.out_proj.{kind}"
        if name in result:
            result[f"{attention}.attention.out_proj.{kind}"] = result.pop(name)
    return result


def split_attention_layers(layers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo `join_attention_layers`, giving WavLM's projections separate names."""
    result = dict(layers)
    gated = [name.removesuffix(_GATE) for name in layers if name.endswith(_GATE)]
    for attention, kind in product(gated, ("weight", "bias")):
        joined = result.pop(f"{attention}.attention.in_proj_{kind}")
        for part, tensor in zip(_JOINED, joined.chunk(len(_JOINED)), strict=True):
            # A view would keep, and store, the memory of all three.
            result[f"{attention}.{part}.{kind}"] = tensor.clone()
        moved = result.pop(f"{attention}.attention.out_proj.{kind}")
        result[f"{attention}.out_proj.{kind}"] = moved
    return result


def add_bucket_table(attention: WavLMSelfAttention) -> None:
    """Add a table with the bucket of each distance to `attention`, for `position_bias`.

    The table moves to the device with the network: torchaudio computes the buckets in each forward
    pass on the CPU, which a GPU has to wait for. It is not part of the weights.
    """
    table_D = make_bucket_table(attention.num_buckets, attention.max_distance)
    attention.register_buffer("buckets", table_D, persistent=False)


def position_bias(attention: WavLMSelfAttention, utterances: int, frames: int) -> Tensor:
    """Return the relative position bias that all layers share: (B, H, L, L)."""
    buckets_LL = buckets_between(attention.buckets, frames)
    bias_LLH: Tensor = attention.rel_attn_embed(buckets_LL)
    bias_1HLL = bias_LLH.permute(2, 0, 1).unsqueeze(0)
    return bias_1HLL.repeat(utterances, 1, 1, 1)


def buckets_between(table_D: Tensor, frames: int) -> Tensor:
    """Return the buckets of the distances between all frames, (L, L)."""
    farthest = len(table_D) // 2
    positions_L = torch.arange(frames, device=table_D.device)
    distances_LL = positions_L[None, :] - positions_L[:, None]
    near_LL = distances_LL.clamp(-farthest, farthest)
    # The table begins at the distance -farthest.
    return table_D[near_LL + farthest]


def make_bucket_table(buckets: int, max_distance: int) -> Tensor:
    """Return the bucket of each distance from -max_distance to max_distance.

    Larger distances share the bucket at the nearer end. Half of the buckets are for each direction:
    half of these hold one distance each, and the ranges of the others grow with the distance.
    """
    farthest = min(max_distance, _MAX_DISTANCE)
    # On the CPU, since logarithms on other devices may be rounded differently.
    distances_D = torch.arange(-farthest, farthest + 1, device="cpu")
    per_direction = buckets // 2
    exact = per_direction // 2
    lengths_D = distances_D.abs()
    # The logarithm for distance 0 is infinite, but `exact` buckets replace its result.
    logs_D = torch.log(lengths_D.float() / exact)
    max_log = math.log(max_distance / exact)
    growth_D = logs_D / max_log * (per_direction - exact)
    growing_D = exact + growth_D.to(torch.long)
    growing_D = growing_D.clamp(max=per_direction - 1)
    buckets_D = torch.where(lengths_D < exact, lengths_D, growing_D)
    # Frames to the right use the upper half of the buckets.
    is_right_D = distances_D > 0
    return is_right_D * per_direction + buckets_D


_LayerCall = Callable[[nn.Module, Tensor, Tensor | None, Tensor | None], Tensor]


class _LayerCalls(local):
    """The way in which the current thread's forward pass calls layers."""

    compiled = False


_CALLS = _LayerCalls()


@contextmanager
def layers_compiled(compiled: bool) -> Iterator[None]:
    """Let `encoder_states` call compiled layers inside the block, around a forward pass.

    One graph serves all layers of the same structure, so compiling takes as long as for one layer.
    """
    before = _CALLS.compiled
    _CALLS.compiled = compiled
    try:
        yield
    finally:
        _CALLS.compiled = before


class WeightedSum(nn.Module):
    """A sum of layers with learned weights, which are positive, sum to 1 and start equal.

    The weights learn with the back end, even if the front end is frozen.

    Source: Yang et al., "SUPERB: Speech processing Universal PERformance Benchmark", Interspeech
    2021.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """Return one tensor with the shape of each of `states`."""
        return weighted_sum(states, self.weights.softmax(dim=0))


def weighted_sum(states: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Return the weighted sum of `states` without stacking them in memory."""
    factors = weights.unbind()
    total = factors[0] * states[0]
    for factor, state in zip(factors[1:], states[1:], strict=True):
        total = total + factor * state
    return total


def encoder_states(
    transformer: Transformer,
    x_BLC: Tensor,
    norm_first: bool,
    layers: int,
    drop: float,
    recompute: bool,
    counts_BL: Tensor | None = None,
) -> Iterator[Tensor]:
    """Yield the input of the first layer and the outputs of the first `layers` layers.

    It replaces torchaudio's loop, which draws a random number for each layer in training even if
    layers are never dropped, and drops the layer if that number is exactly 0.

    Args:
        norm_first: Whether the encoder is pre-norm; its final layer norm is not applied here.
        drop: Probability of skipping a layer in training.
        recompute: Whether layers are recomputed in the backward pass.
        counts_BL: Mask that is True for frames of recordings and False for padding, which nothing
            attends to; None without padding, as for WavLM, whose layers take no mask.

    Yields:
        States (batch, frames, dimension).
    """
    short = norms_are_short()
    run = _run_compiled if _CALLS.compiled else _run_layer
    x_BLC = x_BLC + encode_positions(transformer.pos_conv_embed, x_BLC)
    if not norm_first:
        x_BLC = run_cast(transformer.layer_norm, x_BLC, short)
    x_BLC = transformer.dropout(x_BLC)
    yield x_BLC
    bias_BHLL = _compute_position_bias(transformer, layers, x_BLC)
    attended_B1LL = None
    if counts_BL is not None:
        attended_B1LL = counts_BL[:, None, None, :].expand(-1, 1, x_BLC.shape[1], -1)
    # Whether layers draw random numbers in training, for dropout.
    draws = recompute and (
        transformer.dropout.p > 0
        or any(vars(module).get("lora_dropout") for module in transformer.modules())
    )
    dropped = choose_dropped(layers, drop, transformer.training)
    for number, layer in enumerate(transformer.layers[:layers]):
        # WavLM's first layer is never dropped, since it computes the position biases for all
        # layers.
        has_biases = number == 0 and bias_BHLL is not None
        if dropped[number] and not has_biases:
            x_BLC = x_BLC + 0.0 * _sum_learning(layer)
        elif recompute and torch.is_grad_enabled():
            x_BLC = checkpoint(
                run,
                layer,
                x_BLC,
                bias_BHLL,
                attended_B1LL,
                short,
                use_reentrant=False,
                # A CUDA graph cannot restore a random state.
                preserve_rng_state=draws,
            )
        else:
            x_BLC = run(layer, x_BLC, bias_BHLL, attended_B1LL, short)
        yield x_BLC


def _compute_position_bias(transformer: Transformer, layers: int, x_BLC: Tensor) -> Tensor | None:
    """Return WavLM's bias (B, H, L, L), whose weights are in its first layer; None for others.

    Under autocast, B is 1, shared by all utterances.
    """
    if layers == 0:
        return None
    attention = transformer.layers[0].attention
    if getattr(attention, "rel_attn_embed", None) is None:
        return None
    utterances = 1 if is_autocast_on(x_BLC.device) else x_BLC.shape[0]
    return position_bias(attention, utterances, x_BLC.shape[1])


def run_cast(layer: nn.Module, x: Tensor, short_norms: bool) -> Tensor:
    """Apply a layer with weights cast for autocast, or with short norms."""
    with weights_cast_together(layer, x.device, short_norms):
        result: Tensor = layer(x)
    return result


def _run_layer(
    layer: nn.Module,
    x_BLC: Tensor,
    bias_BHLL: Tensor | None,
    attended_B1LL: Tensor | None,
    short_norms: bool,
) -> Tensor:
    with weights_cast_together(layer, x_BLC.device, short_norms):
        return _call_layer(layer, x_BLC, bias_BHLL, attended_B1LL)


def _run_compiled(
    layer: nn.Module,
    x_BLC: Tensor,
    bias_BHLL: Tensor | None,
    attended_B1LL: Tensor | None,
    short_norms: bool,
) -> Tensor:
    """Run a compiled layer, whose casts and norms the compiler arranges."""
    return _compile_call()(layer, x_BLC, bias_BHLL, attended_B1LL)


def _call_layer(
    layer: nn.Module, x_BLC: Tensor, bias_BHLL: Tensor | None, attended_B1LL: Tensor | None
) -> Tensor:
    return layer(x_BLC, attention_mask=attended_B1LL, position_bias=bias_BHLL)[0]


@cache
def _compile_call() -> _LayerCall:
    # One function per process, so that its compiled code is reused for each layer.
    return torch.compile(_call_layer, dynamic=False)


def _sum_learning(layer: nn.Module) -> Tensor | float:
    """Return the sum of the trained parameters."""
    sums = [parameter.sum() for parameter in layer.parameters() if parameter.requires_grad]
    return torch.stack(sums).sum() if sums else 0.0


def choose_dropped(layers: int, drop: float, training: bool) -> list[bool]:
    """Draw the layers to drop in a step; draw nothing if none can be dropped."""
    if not (drop and training):
        return [False] * layers
    # On the CPU, where the decision to run a layer is made.
    return (torch.rand(layers) < drop).tolist()


# Frames that a product computes together: more take more operations, fewer more copies.
_BLOCK = 8
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
        return module(x_BLC)
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
    return directions * (lengths / norms)


class GroupedConvolution(torch.autograd.Function):
    """A grouped convolution over frames, (B, L, C) to (B, L, G * E), computed as products.

    The weights are (G * E, D, K). A frame sees K // 2 frames before it and the rest after it;
    frames beyond the ends are 0. A product gives a block of R frames, which share most of what they
    see, so that little of the input is copied: the weights are repeated for each frame of a block,
    and 0 where a frame sees less than its block.
    """

    @staticmethod
    def forward(ctx: Any, x_BLC: Tensor, weight: Tensor, bias: Tensor, groups: int) -> Tensor:
        ctx.save_for_backward(x_BLC, weight)
        ctx.groups = groups
        weight_GKDE = weight.unflatten(0, (groups, -1)).permute(0, 3, 2, 1)
        return _convolve(x_BLC, weight_GKDE, weight.shape[2] // 2, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BLC: Tensor) -> tuple[Tensor | None, ...]:
        x_BLC, weight = ctx.saved_tensors
        of_x_BLC = of_weight = None
        weight_GEDK = weight.unflatten(0, (ctx.groups, -1))
        taps = weight.shape[2]
        if ctx.needs_input_grad[0]:
            # The kernel is turned around, so as many frames are before as were after.
            turned_GKED = weight_GEDK.flip(3).permute(0, 3, 1, 2)
            of_x_BLC = _convolve(gradient_BLC, turned_GKED, taps - 1 - taps // 2)
        if ctx.needs_input_grad[1]:
            of_weight_GKDE = _find_gradient_of_weight(gradient_BLC, x_BLC, weight_GEDK)
            of_weight = of_weight_GKDE.permute(0, 3, 2, 1).reshape(weight.shape)
        return of_x_BLC, of_weight, gradient_BLC.sum((0, 1)), None


def _convolve(
    x_BLC: Tensor, weight_GKDE: Tensor, before: int, bias: Tensor | None = None
) -> Tensor:
    """Return the convolution, (B, L, G * E)."""
    groups, taps, values, outputs = weight_GKDE.shape
    repeated = x_BLC.new_zeros(groups, _BLOCK + taps - 1, values, _BLOCK, outputs)
    _of_frames(repeated, taps).copy_(weight_GKDE.unsqueeze(2))
    seen_GNX = _windows(x_BLC, groups, taps, before)
    repeated_GXY = repeated.flatten(3, 4).flatten(1, 2)
    if bias is None:
        blocks_GNY = torch.bmm(seen_GNX, repeated_GXY)
    else:
        bias_G1Y = bias.view(groups, 1, outputs).repeat(1, 1, _BLOCK)
        blocks_GNY = torch.baddbmm(bias_G1Y, seen_GNX, repeated_GXY)
    frames_GBLE = blocks_GNY.unflatten(1, (len(x_BLC), -1)).unflatten(3, (_BLOCK, -1)).flatten(2, 3)
    return frames_GBLE[:, :, : x_BLC.shape[1]].permute(1, 2, 0, 3).flatten(2)


def _find_gradient_of_weight(gradient_BLC: Tensor, x_BLC: Tensor, weight_GEDK: Tensor) -> Tensor:
    groups, outputs, values, taps = weight_GEDK.shape
    seen_GNX = _windows(x_BLC, groups, taps, before=taps // 2)
    padded_BLC = F.pad(gradient_BLC, (0, 0, 0, -gradient_BLC.shape[1] % _BLOCK))
    gradient_BLGE = padded_BLC.unflatten(2, (groups, -1))
    gradient_GNY = gradient_BLGE.permute(2, 0, 1, 3).reshape(groups, -1, _BLOCK * outputs)
    repeated_GXY = torch.bmm(seen_GNX.mT, gradient_GNY)
    repeated = repeated_GXY.view(groups, _BLOCK + taps - 1, values, _BLOCK, outputs)
    return _of_frames(repeated, taps).sum(2)


def _of_frames(repeated: Tensor, taps: int) -> Tensor:
    """Return the weights of each frame of a block: (G, K, R, D, E), a view."""
    groups, _, values, frames, outputs = repeated.shape
    group, tap, value, frame, _ = repeated.stride()
    # A frame sees what the one before it sees, one later.
    strides = (group, tap, tap + frame, value, 1)
    return repeated.as_strided((groups, taps, frames, values, outputs), strides)


def _windows(x_BLC: Tensor, groups: int, taps: int, before: int) -> Tensor:
    """Return what the blocks of frames see: (groups, B * blocks, (R + K - 1) * D)."""
    after = taps - 1 - before + -x_BLC.shape[1] % _BLOCK
    padded_BPC = F.pad(x_BLC, (0, 0, before, after))
    padded_GBPD = padded_BPC.unflatten(2, (groups, -1)).permute(2, 0, 1, 3)
    seen_GBNDW = padded_GBPD.unfold(2, _BLOCK + taps - 1, _BLOCK)
    return seen_GBNDW.transpose(3, 4).flatten(3, 4).flatten(1, 2)
