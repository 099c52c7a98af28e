"""WavLM's layers: where torchaudio keeps what other programs name otherwise, and the bias of relative positions.

Invariants: numbers are moved, none is changed, and a layer that is not WavLM's is left as it is; the bias is the one of
torchaudio, to the last bit.

Source: Chen et al., "WavLM", JSTSP 2022, for the gated relative position bias; torchaudio's network for the names.

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

# In frames, 22 minutes: attention over more than these fits no memory, whatever distance a file claims.
_LONGEST = 2**16


def joined(layers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`layers` with the query, key and value projections of WavLM's attention as the one matrix that torch uses."""
    result = dict(layers)
    for gate in [name for name in layers if name.endswith(_GATE)]:
        attention = gate.removesuffix(_GATE)
        for kind in ("weight", "bias"):
            names = [f"{attention}.{part}.{kind}" for part in _JOINED]
            if all(name in result for name in names):
                result[f"{attention}.attention.in_proj_{kind}"] = torch.cat(
                    [result.pop(name) for name in names]
                )
            if f"{attention}.out_proj.{kind}" in result:
                result[f"{attention}.attention.out_proj.{kind}"] = result.pop(
                    f"{attention}.out_proj.{kind}"
                )
    return result


def keep_buckets(attention: WavLMSelfAttention) -> None:
    """Give `attention` a table with the bucket of each distance, for `position_bias`.

    The table moves to the device with the network: torchaudio computes the buckets in each forward pass on the CPU, and
    a GPU then has to be waited for. It is no part of the weights.
    """
    table_D = _buckets(attention.num_buckets, attention.max_distance)
    attention.register_buffer("buckets", table_D, persistent=False)


def position_bias(attention: WavLMSelfAttention, utterances: int, frames: int) -> Tensor:
    """The bias of relative positions that all layers share: (B, H, L, L)."""
    farthest = len(attention.buckets) // 2
    positions_L = torch.arange(frames, device=attention.buckets.device)
    distances_LL = positions_L[None, :] - positions_L[:, None]
    buckets_LL = attention.buckets[distances_LL.clamp(-farthest, farthest) + farthest]
    bias_LLH: Tensor = attention.rel_attn_embed(buckets_LL)
    return bias_LLH.permute(2, 0, 1).unsqueeze(0).repeat(utterances, 1, 1, 1)


def _buckets(number: int, farthest: int) -> Tensor:
    """The bucket of each distance from -farthest to farthest; all beyond are in that of the nearer end.

    Half of the `number` buckets are for each direction: of these, half are of one distance, the others grow with it.
    """
    longest = min(farthest, _LONGEST)
    # On the CPU: another device's logarithm may be rounded otherwise.
    distances_D = torch.arange(-longest, longest + 1, device="cpu")
    number //= 2
    exact = number // 2
    lengths_D = distances_D.abs()
    growth_D = torch.log(lengths_D.float() / exact) / math.log(farthest / exact) * (number - exact)
    grown_D = (exact + growth_D.to(torch.long)).clamp(max=number - 1)
    return (distances_D > 0) * number + torch.where(lengths_D < exact, lengths_D, grown_D)
