"""The encoder's layers: computing them, dropping some in a step, summing several; those of WavLM.

Invariant: in training, every trained parameter of every computed layer gets a gradient in every
step, which is zero if the layer was dropped. Processes can therefore drop different layers, as in
fairseq, without waiting for gradients that others lack, and the optimiser treats a step in the same
way on any number of processes. WavLM's weights are renamed to torchaudio's names without change,
and its position bias equals torchaudio's to the last bit.

Source: Chen et al., "WavLM", JSTSP 2022, for the gated relative position bias; torchaudio's network
for the names.

Shapes: B utterances, L frames, C feature values, H attention heads, D distances between frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from threading import local

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchaudio.models.wav2vec2.components import Transformer
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

from asdf.networks.casting import is_autocast_on, norms_are_short, weights_cast_together
from asdf.networks.front_ends.gpu_convolutions import encode_positions

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
    for name in layers:
        # Only WavLM's attention has a gate.
        if name.endswith(_GATE):
            _join_projections(result, name.removesuffix(_GATE))
    return result


def _join_projections(layers: dict[str, Tensor], attention: str) -> None:
    for kind in ("weight", "bias"):
        names = [f"{attention}.{part}.{kind}" for part in _JOINED]
        # A file may lack some, which the check of all layers then reports by name.
        if all(name in layers for name in names):
            parts = [layers.pop(name) for name in names]
            joined_name = f"{attention}.attention.in_proj_{kind}"
            layers[joined_name] = torch.cat(parts)
        name = f"{attention}.out_proj.{kind}"
        if name in layers:
            new_name = f"{attention}.attention.out_proj.{kind}"
            layers[new_name] = layers.pop(name)


def split_attention_layers(layers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo `join_attention_layers`, giving WavLM's projections separate names."""
    result = dict(layers)
    for name in layers:
        if name.endswith(_GATE):
            attention = name.removesuffix(_GATE)
            for kind in ("weight", "bias"):
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
    draws = recompute and _draws_numbers(transformer)
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


def _draws_numbers(transformer: Transformer) -> bool:
    """Return whether its layers draw random numbers in training, for dropout."""
    if transformer.dropout.p > 0:
        return True
    return any(vars(module).get("lora_dropout") for module in transformer.modules())


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
    if attended_B1LL is None:
        unmasked_BLC: Tensor = layer(x_BLC, position_bias=bias_BHLL)[0]
        return unmasked_BLC
    output_BLC: Tensor = layer(x_BLC, attention_mask=attended_B1LL, position_bias=bias_BHLL)[0]
    return output_BLC


@cache
def _compile_call() -> _LayerCall:
    # One function per process, so that its compiled code is reused for each layer.
    compiled: _LayerCall = torch.compile(_call_layer, dynamic=False)
    return compiled


def _sum_learning(layer: nn.Module) -> Tensor | float:
    """Return the sum of the trained parameters."""
    sums = [parameter.sum() for parameter in layer.parameters() if parameter.requires_grad]
    return torch.stack(sums).sum() if sums else 0.0


def choose_dropped(layers: int, drop: float, training: bool) -> list[bool]:
    """Draw the layers to drop in a step; draw nothing if none can be dropped."""
    if not (drop and training):
        return [False] * layers
    # On the CPU, where the decision to run a layer is made.
    dropped: list[bool] = (torch.rand(layers) < drop).tolist()
    return dropped
