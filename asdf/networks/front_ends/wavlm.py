"""WavLM's layers: renaming to torchaudio's names, and the position bias.

Invariants: weights are moved without change, and a layer that is not WavLM's is untouched; the bias
equals torchaudio's to the last bit.

Source: Chen et al., "WavLM", JSTSP 2022, for the gated relative position bias; torchaudio's network
for the names.

Shapes: B utterances, L frames, H attention heads, D distances between frames.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

_GATE = ".gru_rel_pos_const"
_JOINED = ("q_proj", "k_proj", "v_proj")

# In frames, 22 minutes; attention over more fits into no memory, whatever a file claims.
_MAX_DISTANCE = 2**16


def join_attention_layers(
    layers: Mapping[str, Tensor],
) -> dict[str, Tensor]:
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
