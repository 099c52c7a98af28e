"""WavLM's attention under autocast: the gated position bias in few operations and few bytes.

Torchaudio computes the gates in ten operations and multiplies them by a float32 bias for all
utterances, which autocast and torch's attention copy for their format and alignment; the backward
pass needs twice as many. Here all utterances share one bias, and the term added to the attention
scores is written once, in the layout that attention reads.

Invariant: equal to torchaudio's results under autocast up to the rounding of autocast's format; the
gradients of the bias are summed over the layers in float32. `asdf.networks.casting` selects this
for weights that it has cast.

Source: Chen et al., "WavLM", JSTSP 2022, for the gates.

Shapes: B utterances, L frames, C values of a frame, H heads, X = H * L rows of all heads.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

from asdf.networks.autocast import without_autocast
from asdf.networks.functions import is_plain, multiply

# Row length of the term added to the scores: attention copies rows of other multiples.
_ALIGNED = 16


def can_gate(attention: WavLMSelfAttention) -> bool:
    """Return whether all parts are torch's and have no hooks; low-rank updates are not."""
    if not (attention.gru_rel_pos and is_plain(attention) and is_plain(attention.attention)):
        return False
    inner, gates = attention.attention, attention.gru_rel_pos_linear
    kinds = {inner: nn.MultiheadAttention, inner.out_proj: NonDynamicallyQuantizableLinear}
    kinds[gates] = nn.Linear
    return is_plain(gates) and all(type(part) is kind for part, kind in kinds.items())


def attend_gated(
    attention: WavLMSelfAttention,
    x_BLC: Tensor,
    key_padding_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
) -> tuple[Tensor, None]:
    """Compute `WavLMSelfAttention.forward`, without masks.

    Args:
        position_bias: Bias (1, heads, frames, frames), in float32.
    """
    inner, gates = attention.attention, attention.gru_rel_pos_linear
    x_BLC = x_BLC.to(inner.in_proj_weight.dtype)
    logits_BLH8 = F.linear(x_BLC.unflatten(2, (inner.num_heads, -1)), gates.weight, gates.bias)
    added_BHLL = _GatedBias.apply(logits_BLH8, attention.gru_rel_pos_const, position_bias)
    rows_BLZ = F.linear(x_BLC, inner.in_proj_weight, inner.in_proj_bias)
    dropout = attention.dropout if attention.training else 0.0
    return attend_rows(rows_BLZ, inner.num_heads, added_BHLL, dropout, inner.out_proj), None


def attend_rows(
    rows_BLZ: Tensor, heads: int, added_BHLL: Tensor | None, dropout: float, output: nn.Module
) -> Tensor:
    """Return the output of an attention for its concatenated queries, keys and values.

    Args:
        rows_BLZ: Queries, keys and values, (batch, frames, 3 * values).
        added_BHLL: Term added to the attention scores, (batch, heads, frames, frames).
        output: Output projection, applied to the values of all heads.
    """
    heads_BL3HC = rows_BLZ.unflatten(2, (3, heads, -1))
    # In this order, one copy joins the gradients of all three.
    queries, keys, values = (rows.transpose(1, 2) for rows in heads_BL3HC.unbind(2))
    attended_BHLC = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=added_BHLL, dropout_p=dropout
    )
    output_BLC: Tensor = output(attended_BHLC.transpose(1, 2).flatten(2))
    return output_BLC


class _GatedBias(torch.autograd.Function):
    """The bias times its gates: a (b c - 1) + 2, where a and b are sigmoids and c is learned.

    For the gradients of the logits behind a and b, and of c, three factors are saved: a (b c - 1),
    a b c, and a b. The first two still have to be multiplied by 1 - a and 1 - b.
    """

    @staticmethod
    def forward(ctx: Any, logits_BLH8: Tensor, scale_1H11: Tensor, bias_1HLL: Tensor) -> Tensor:
        utterances, frames, heads, _ = logits_BLH8.shape
        with without_autocast(logits_BLH8):
            sums_BLH2 = logits_BLH8.unflatten(3, (2, 4)).sum(dim=4, dtype=torch.float32)
            gates_BLH2 = sums_BLH2.sigmoid_()
            first, second = gates_BLH2.unbind(3)
            factors_BLH3 = first.new_empty(*first.shape, 3)
            of_first, of_second, of_scale = factors_BLH3.unbind(3)
            torch.mul(first, second, out=of_scale)
            torch.mul(of_scale, scale_1H11.view(-1), out=of_second)
            torch.sub(of_second, first, out=of_first)
            # In the layout of the product that computes the gradient of the bias.
            gate_HLB = logits_BLH8.new_empty(heads, frames, utterances)
            torch.add(of_first.permute(2, 1, 0), 2, out=gate_HLB)
            aligned = -(-frames // _ALIGNED) * _ALIGNED
            rows = logits_BLH8.new_empty(utterances, heads, frames, aligned)
            added_BHLL = rows[..., :frames]
            torch.mul(gate_HLB.permute(2, 0, 1).unsqueeze(3), bias_1HLL, out=added_BHLL)
        ctx.save_for_backward(gates_BLH2, factors_BLH3, gate_HLB, bias_1HLL)
        return added_BHLL

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BHLL: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        gates_BLH2, factors_BLH3, gate_HLB, bias_1HLL = ctx.saved_tensors
        rows_XBL = gradient_BHLL.permute(1, 2, 0, 3).flatten(0, 1)
        short_XL1 = bias_1HLL.to(rows_XBL.dtype).flatten(0, 2).unsqueeze(2)
        of_gates_BLH = multiply(rows_XBL, short_XL1).view_as(gate_HLB).permute(2, 1, 0)
        parts_BLH3 = of_gates_BLH.unsqueeze(3) * factors_BLH3
        of_scale_H = parts_BLH3[..., 2].sum((0, 1))
        of_logits_BLH24 = rows_XBL.new_empty(*gates_BLH2.shape, 4)
        sums_BLH24 = parts_BLH3[..., :2].unsqueeze(4).expand_as(of_logits_BLH24)
        torch.addcmul(
            sums_BLH24, sums_BLH24, gates_BLH2.unsqueeze(4), value=-1, out=of_logits_BLH24
        )
        of_bias_1HLL = None
        if ctx.needs_input_grad[2]:
            of_bias_X1L = multiply(gate_HLB.flatten(0, 1).unsqueeze(1), rows_XBL)
            of_bias_1HLL = of_bias_X1L.view_as(bias_1HLL).float()
        return of_logits_BLH24.flatten(3), of_scale_H.view(1, -1, 1, 1), of_bias_1HLL
